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
