import type { EngineEnv } from "../../contract/bindings.ts";
import { type Statement, sql } from "../../contract/sql.ts";
import { codeLabelOf, ownName, ownStep } from "../../contract/step-names.ts";
import { namedBatch } from "../../store/d1/named.ts";
import type { EntryState } from "../../store/inbox/entry.ts";
import { IS_FREE } from "../../store/inbox/outcome.ts";
import type { StepRecord } from "../history.ts";

/** The state of a step whose attempt has ended on the platform although the step is not done. */
export type StepEnd = HeldState | "in_doubt" | "waiting";

/**
 * The states of steps whose attempt has ended although the step is not done, by the platform's step name. The function derives the state
 * from the engine's wait that follows the step in `all`. If no wait has begun, the function derives the state from the step's records.
 */
export async function stepEnds(
  env: Pick<EngineEnv, "DB">,
  instanceId: string,
  ended: ReadonlyMap<string, StepRecord>,
  all: Iterable<StepRecord>,
): Promise<ReadonlyMap<string, StepEnd>> {
  if (ended.size === 0) return new Map();
  const waits = endsByWaits(all);
  const open = [...ended.values()].filter(({ name }) => !waits.has(name));
  const record = await recordOf(env, instanceId, new Set(open.map(codeLabelOf)));
  return new Map(
    [...ended].flatMap(([stepName, step]) => {
      const end = waits.get(step.name) ?? endByRecord(step, record);
      return end ? [[stepName, end] as const] : [];
    }),
  );
}

function endsByWaits(all: Iterable<StepRecord>): ReadonlyMap<string, StepEnd> {
  const ends = new Map<string, StepEnd>();
  const owns = [...all].flatMap((step) => (step.type === "waitForEvent" ? (ownStep(step) ?? []) : []));
  for (const { about, part, nth } of owns) {
    if ((part === "signal" || part === "answer") && nth === 1) ends.set(about, "waiting");
  }
  for (const { about, part, nth } of owns) {
    if (part !== "in_doubt" && part !== "paused") continue;
    for (const name of triedBefore(about, nth)) ends.set(name, part);
  }
  return ends;
}

/** The names of the steps that may have made the attempt before the `nth` wait for an operator about a step. */
export function triedBefore(about: string, nth: number): string[] {
  return nth === 1 ? [about] : [ownName(about, "after_pause", nth - 1), ownName(about, "after_doubt", nth - 1)];
}

interface OnRecord {
  readonly entries: ReadonlyMap<string, EntryState>;
  readonly waiting: ReadonlySet<string>;
  readonly hold: Hold | undefined;
}

async function recordOf({ DB }: Pick<EngineEnv, "DB">, instanceId: string, labels: ReadonlySet<string>): Promise<OnRecord> {
  if (labels.size === 0) return { entries: new Map(), waiting: new Set(), hold: undefined };
  const names = JSON.stringify([...labels]);
  const keys = JSON.stringify([...labels].flatMap(keysOf));
  const { entries, waiting, hold } = await namedBatch(DB, {
    entries: sql`
      SELECT k.value->>'label' AS label, e.state FROM json_each(${keys}) k CROSS JOIN millrace_inbox e
      WHERE e.instance_id = ${instanceId} AND e.step = k.value->>'step' AND e.item = k.value->>'item' AND NOT ${IS_FREE}
      ORDER BY e.generation`,
    waiting: sql`
      SELECT name FROM millrace_waits WHERE instance_id = ${instanceId} AND signal_id IS NULL AND over_at IS NULL
        AND name IN (SELECT value FROM json_each(${names}))
      UNION ALL SELECT step FROM millrace_approvals WHERE instance_id = ${instanceId} AND state = 'pending'
        AND step IN (SELECT value FROM json_each(${names}))`,
    hold: selectHold(instanceId),
  });
  return {
    entries: new Map(entries.map(({ label, state }) => [String(label), state as EntryState])),
    waiting: new Set(waiting.map(({ name }) => String(name))),
    hold: hold[0] as Hold | undefined,
  };
}

/**
 * Returns every step key that may belong to a label. Brackets at the end of the label may contain an item, or may belong to the step's
 * name.
 */
function keysOf(label: string): { label: string; step: string; item: string }[] {
  const places = label.endsWith("]") ? [...label.matchAll(/ \[/g)].map(({ index }) => index) : [];
  return [{ label, step: label, item: "" }, ...places.map((at) => ({ label, step: label.slice(0, at), item: label.slice(at + 2, -1) }))];
}

function endByRecord(step: StepRecord, { entries, waiting, hold }: OnRecord): StepEnd | undefined {
  const label = codeLabelOf(step);
  const entry = entries.get(label);
  if (entry === "in_doubt") return "in_doubt";
  return waiting.has(label) ? "waiting" : heldState(step, entry, hold);
}

export interface Hold {
  readonly verb: "pause" | "cancel";
  readonly at: number;
}

/** Selects the last operator action on an instance, if that action pauses or stops the run. Otherwise the statement selects no row. */
export function selectHold(instanceId: string): Statement {
  return sql`
    SELECT verb, at FROM (
      SELECT verb, at FROM millrace_actions INDEXED BY millrace_actions_by_instance
      WHERE tenant_id = (SELECT tenant_id FROM millrace_instances
        WHERE id = ${instanceId}) AND instance_id = ${instanceId} AND result = 'applied'
        AND verb IN ('pause', 'resume', 'cancel', 'retry', 'restart', 'skip_step')
      ORDER BY at DESC, id DESC LIMIT 1)
    WHERE verb IN ('pause', 'cancel')`;
}

/** An attempt that began at most this many milliseconds before a hold may have detected the hold, if the attempt ended after the hold. */
const HEARD_LATE_MS = 250;

type HeldState = "paused" | "stopped";

/**
 * The state of a step that the platform shows as complete although a hold ended its attempt before the step's code was called. For an
 * effect, the result depends on `entry`, the state of its last inbox entry. A read has no inbox entry, so the result depends on the times
 * of its attempt.
 */
export function heldState(step: StepRecord, entry: EntryState | undefined, hold: Hold | undefined): HeldState | undefined {
  const part = ownStep(step)?.part;
  if (hold === undefined || step.type !== "do" || step.state !== "complete" || part === "time_over" || part === "read_again")
    return undefined;
  if (entry !== undefined && entry !== "failed" && entry !== "claimed") return undefined;
  const { started_at = 0, ended_at = null } = step.attempts.at(-1) ?? {};
  const isBehind = started_at >= hold.at - HEARD_LATE_MS && (ended_at ?? 0) >= hold.at;
  if (hold.verb === "pause") return isBehind ? "paused" : undefined;
  return isBehind || entry !== undefined ? "stopped" : undefined;
}
