import { type Answer, get, type Item, type Result, together } from "../../data/api.ts";
import type { Explained } from "../../data/explained.ts";

export type Detail = Answer<"/v1/instances/:id">;
export type Step = Item<"/v1/instances/:id/steps">;
export type Effect = Item<"/v1/instances/:id/effects">;
export type Message = Item<"/v1/instances/:id/events">;
export type Action = Item<"/v1/audit">;
export type Question = Item<"/v1/approvals">;

export type Child = Item<"/v1/instances">;

export const UNDO_STEP = "undo ";

export function hasUndoFailed({ status, undo }: Pick<Detail, "status" | "undo">): boolean {
  return status === "errored" && undo === "open";
}

export const MOST_ACTIONS = 50;

export interface Whole {
  instance: Detail;
  steps: Step[];
  effects: Effect[];
  messages: Message[];
  actions: Action[];
  questions: Question[];
  /** The newest children, at most `MOST_CHILDREN`. */
  children: Child[];
}

export const MOST_CHILDREN = 50;

/**
 * Loads an instance with its steps, effects, actions and questions. `reveal` loads the redacted values; the API records this in the audit.
 */
export async function wholeInstance(id: string, reveal: boolean): Promise<Result<Whole>> {
  const param = { id };
  const revealed = reveal ? { reveal: "true" as const } : {};
  const found = await together({
    instance: get("/v1/instances/:id", { param, query: revealed }),
    steps: get("/v1/instances/:id/steps", { param }),
    effects: get("/v1/instances/:id/effects", { param, query: revealed }),
    messages: get("/v1/instances/:id/events", { param, query: { payload: "true", ...revealed } }),
    actions: get("/v1/audit", { query: { instance: id, limit: String(MOST_ACTIONS) } }),
    questions: get("/v1/approvals", { query: { instance: id } }),
    children: get("/v1/instances", { query: { parent: id, limit: String(MOST_CHILDREN) } }),
  });
  if (!found.ok) return found;
  const { instance, steps, effects, messages, actions, questions, children } = found.data;
  const lists = { steps: steps.items, effects: effects.items, messages: messages.items, actions: actions.items };
  return { ok: true, data: { instance, ...lists, questions: questions.items, children: children.items } };
}

/** A run that an operator's action started. Each retry, restart, undo and cancel starts the next run. */
export interface Run {
  number: number;
  begunAt: string;
  by: string;
  /** The error of the previous run. Undefined if no previous run exists, or if the error of the previous run is not recorded. */
  before: string | undefined;
}

const CALLED: Readonly<Record<string, string>> = { skip_step: "skip of a step" };

/** The runs of an instance after its first one, oldest first, derived from the audit. */
export function runsOf(actions: readonly Action[], explained: ReadonlyMap<string, Explained>): Run[] {
  return actions.toReversed().flatMap(({ result, detail, verb, actor, at }) => {
    // If an operator stops an instance without an undo, no new run starts.
    if (result !== "applied" || typeof detail?.run !== "number" || detail.undo === false) return [];
    return [{ number: detail.run, begunAt: at, by: `${actor}'s ${CALLED[verb] ?? verb}`, before: failureIn(detail.failed, explained) }];
  });
}

function failureIn(failed: unknown, explained: ReadonlyMap<string, Explained>): string | undefined {
  if (typeof failed !== "object" || failed === null) return undefined;
  const { step, code, attempts, upstream_status: status } = failed as Record<string, unknown>;
  const title = explained.get(String(code))?.title.toLowerCase() ?? String(code).replaceAll("_", " ");
  const often = typeof attempts === "number" && attempts > 1 ? `, ${attempts} attempts` : "";
  return `failed${step ? ` at ${step}` : ""}: ${title}${status === undefined ? "" : ` (status ${status})`}${often}`;
}

export const OVER: ReadonlySet<string> = new Set(["complete", "errored", "terminated", "dead", "skipped"]);

/**
 * The purpose of a step that the engine adds, shown after the step's name. Null for a wait whose step name already describes its purpose.
 */
const PARTS = {
  in_doubt: "wait for an operator",
  paused: "wait for an operator",
  after_doubt: "after the operator's decision",
  after_pause: "after the operator's decision",
  signal: null,
  answer: null,
  time_over: "timeout check",
  read_again: "read again",
  run: "new attempt",
  version: "version not deployed",
} as const;

interface Kind {
  readonly type: "do" | "sleep" | "waitForEvent";
  readonly own: { readonly part: keyof typeof PARTS } | null;
  readonly mode: "platform" | "lean";
  readonly kept: boolean;
  readonly event_type: string | null;
  readonly effects: readonly { readonly class: string }[];
}

export function kindOf({ type, own, mode, kept, event_type: event, effects }: Kind): string {
  const part = own && PARTS[own.part];
  if (part) return part;
  if (type === "sleep") return "sleep";
  if (type === "waitForEvent") return `wait for ${event ?? "an answer"}`;
  return [effects[0]?.class, mode === "lean" && "inline (lean)", kept && "kept from an earlier run"].filter(Boolean).join(", ");
}

/** The name of a step and the key of its item, as in the code and on the platform. */
export function labelOf({ step, item }: { step: string; item: string }): string {
  return item ? `${step} [${item}]` : step;
}

export function stepOf(label: string): { step: string; item?: string } {
  const [, step = label, item] = /^(.+?) \[(.+)\]$/s.exec(label) ?? [];
  return item === undefined ? { step } : { step, item };
}

interface Timed {
  type: "do" | "sleep" | "waitForEvent";
  started_at: string | null;
  ended_at: string | null;
}

const ms = (time: string | null) => (time === null ? undefined : Date.parse(time));

/** The duration of an ended run in ms, and how much of this time the run waited or slept. The time between runs is not included. */
export function tookOf(
  { accepted_at, updated_at }: { accepted_at: string; updated_at: string },
  steps: readonly Timed[],
  runs: readonly { begunAt: string }[],
): { took: number; waited: number } {
  const from = Date.parse(runs.at(-1)?.begunAt ?? accepted_at);
  const to = Date.parse(updated_at);
  const waits = steps.flatMap(({ type, started_at, ended_at }) => {
    const [began, ended] = [ms(started_at), ms(ended_at)];
    // An open step that started before this run belongs to the previous run.
    return type === "do" || began === undefined || (began < from && ended === undefined) ? [] : [{ began, ended: ended ?? to }];
  });
  let [waited, until] = [0, from];
  for (const { began, ended } of waits.toSorted((one, other) => one.began - other.began)) {
    waited += Math.max(0, Math.min(ended, to) - Math.max(began, until));
    until = Math.max(until, Math.min(ended, to));
  }
  return { took: Math.max(0, to - from), waited };
}
