import type { EngineEnv } from "../contract/bindings.ts";
import { YEAR_MS } from "../contract/duration.ts";
import { MillraceError } from "../contract/errors.ts";
import type { Hide } from "../contract/hide.ts";
import { eventKey, instanceId } from "../contract/ids.ts";
import { keeperObject, type UndoneChild } from "../contract/keeper-stub.ts";
import type { Draft, MessageDefinition, Performer } from "../contract/message.ts";
import { attemptCommit } from "../guard/commit.ts";
import { type PackedOutput, type StepOutcome, unpackOutput } from "../guard/output.ts";
import { type Done, defineStep } from "../guard/step.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import type { Left } from "../signals/approval.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import { selectChild } from "../store/instances/children.ts";
import { type InstanceStatus, REFUSED } from "../store/instances/status.ts";
import { markWaiting } from "../store/instances/wait.ts";
import { askForChild, childEventType, selectChildWait, selectEndForUndo } from "../store/waits.ts";
import type { Platform } from "./platform.ts";

/** A workflow that `step.child` can start, with the types of its input and its result. */
export interface ChildWorkflow<Payload, Result, Given> extends Performer {
  readonly on: MessageDefinition<Payload, string, Given>;
  readonly run: (call: never) => Promise<Result>;
}

export interface ChildRequest {
  /** Creates the child's command. Errors: `invalid_payload`, `config_invalid`, `too_many_hops`. */
  readonly draft: () => Draft;
  readonly workflow: Performer;
  /** Returns the function that hides the sensitive fields of the child's input in the failure of the child. */
  readonly hide: () => Hide;
}

/** The end of a child, as the event for its parent contains it. */
export interface ChildEnd {
  readonly child: string;
  readonly run: number;
  readonly status: string;
  readonly error: { readonly code?: string; readonly message?: string } | null;
  readonly result: PackedOutput | null;
}

/** The state of a wait for a child: the child's end, or the event type that will report the end. */
type Standing = { readonly end: ChildEnd } | (Left & { readonly eventType: string });

/** The record of a started child. `now`: the state of the wait, if an earlier attempt started the child. */
export interface ChildRecord {
  readonly child: string;
  readonly now?: Standing;
}

/** True for the record of a started child, false for the output of a start that an operator skipped. */
export function isChildRecord(value: unknown): value is ChildRecord {
  const { child } = (value ?? {}) as Partial<ChildRecord>;
  return typeof child === "string" && /^[0-9a-f]{32}$/.test(child);
}

/**
 * Accepts a child in the write that records the step, under a key that the step's entry determines. A later attempt finds the record, and
 * also returns the present state of the wait, because a restart discards the events that were sent to the earlier run.
 */
export async function attemptChild(
  replay: Replay,
  step: StepCall,
  label: string,
  nth: number,
  request: ChildRequest,
): Promise<StepOutcome> {
  const { draft, workflow } = request;
  const outcome = await attemptCommit({ replay, step }, nth, (_, key) => ({
    emit: [{ ...draft(), key: undefined, child: { name: workflow.name, deadline: workflow.deadline } }],
    output: { child: instanceId(replay.envelope.tenant_id, workflow.name, eventKey(key, 0)) },
  }));
  if (!("output" in outcome) || outcome.appRows !== undefined || outcome.output === null) return outcome;
  const record: unknown = JSON.parse(outcome.output);
  if (!isChildRecord(record)) return outcome;
  return { ...outcome, output: JSON.stringify({ ...record, now: await standingOf(replay, label) }) };
}

/** Waits without polling until the child has ended. A failed child that an operator has retried meanwhile is awaited again. */
export async function awaitChild(replay: Replay, platform: Platform, step: StepCall, { child, now }: ChildRecord): Promise<ChildEnd> {
  if (now && "end" in now) return now.end;
  const first = now ?? { leftMs: YEAR_MS, at: Date.now(), eventType: childEventType(child, 1) };
  const awaited = { part: "signal", eventType: first.eventType, left: first } as const;
  const { end } = await platform.holds.awaitOr<ChildEnd, { readonly end: ChildEnd }>(
    step,
    awaited,
    (told) => ({ end: told }),
    () => standingOf(replay, step.label),
    (told) => told.end.status === "complete",
  );
  return end;
}

async function standingOf(replay: Replay, label: string): Promise<Standing> {
  const { instanceId: id, env } = replay;
  const { wait } = await namedBatch(env.DB, {
    asked: askForChild(id, label),
    status: markWaiting(id),
    wait: selectChildWait(id, label),
  });
  const [row] = wait as { event_type: string; envelope: string | null }[];
  if (row === undefined) throw new MillraceError("invariant", `The wait of "${label}" for its child has no row. Please report this.`);
  if (row.envelope !== null) return { end: JSON.parse(row.envelope) as ChildEnd };
  return { leftMs: YEAR_MS, at: Date.now(), eventType: row.event_type };
}

/** The end with which the code of the parent continued, for the undo of the parent; undefined for a child without an end. */
export async function endForUndo({ instanceId, env }: Replay, { label }: StepCall): Promise<ChildEnd | undefined> {
  const [row] = await query<{ envelope: string | null }>(env.DB, selectEndForUndo(instanceId, label));
  return row?.envelope ? (JSON.parse(row.envelope) as ChildEnd) : undefined;
}

/** The result of a complete child. Errors: `child_failed` for any other end. */
export async function resultOfChild(replay: Replay, step: StepCall, end: ChildEnd, hide: () => Hide): Promise<unknown> {
  const { child: id, status, error, result } = end;
  if (status === "complete") return result === null ? undefined : unpackOutput(replay.env.PAYLOADS, result);
  const code = error?.code ?? status;
  const message = hide()(error?.message ?? `The child is ${status}.`);
  throw new MillraceError("child_failed", `The child ${id} of "${step.label}" is ${status}: ${message}`, {
    step: step.label,
    child: { id, status, code, message },
  });
}

/**
 * Undoes a child: cancels a child in progress, undoes an ended child, and ends when the child's own undo has ended. A child without an
 * effect to undo remains. Errors: `child_failed` if the child's undo has failed, so that an operator retries that undo first.
 */
export const undoChild = defineStep<Done<Omit<UndoneChild, "child">, ChildRecord>, null>({
  effect: "natural",
  retries: { limit: 10_000, delay: "1 second", backoff: "linear" },
  run: async ({ input: { input, output }, env }) => {
    const { DB } = env as unknown as EngineEnv;
    const { child } = output;
    const [row] = await query<{ status: InstanceStatus; undo: string | null; undone: number }>(DB, selectChild(input.tenantId, child));
    if (row === undefined || row.undone === 1 || REFUSED.has(row.status)) return null;
    if (row.undo !== null && row.status === "errored") {
      const message = `The undo of the child ${child} has failed: retry the child, then retry this undo.`;
      throw new MillraceError("child_failed", message, { child: { id: child, status: row.status, code: "step_failed", message } });
    }
    if ((await keeperObject(env).undoChild({ ...input, child })) === "nothing") return null;
    throw new MillraceError("unavailable", `The undo of the child ${child} is in progress.`);
  },
});
