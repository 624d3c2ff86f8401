/** The purpose of a step that the engine adds. Null for a wait with a step name that contains its purpose. */
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
  readonly mode: "platform" | "inline";
  readonly kept: boolean;
  readonly event_type: string | null;
  readonly effects: readonly { readonly class: string }[];
}

export function kindOf({ type, own, mode, kept, event_type: event, effects }: Kind): string {
  const part = own && PARTS[own.part];
  if (part) return part;
  if (type === "sleep") return "sleep";
  if (type === "waitForEvent") return `wait for ${event ?? "an answer"}`;
  return [effects[0]?.class, mode === "inline" && "inline", kept && "kept from an earlier run"].filter(Boolean).join(", ");
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

export const ms = (time: string | null) => (time === null ? undefined : Date.parse(time));

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
