/** What a step of the engine's own is for, beside the name of the step that it is about; null where it waits for what that one names. */
const PARTS = {
  in_doubt: "wait for a person's word",
  paused: "wait for a person's word",
  after_doubt: "by a person's word",
  after_pause: "by a person's word",
  signal: null,
  answer: null,
  time_over: "looks whether it came in time",
  read_again: "read again",
  run: "tried anew",
} as const;

/** What its kind is told by. */
interface Kind {
  readonly type: "do" | "sleep" | "waitForEvent";
  readonly own: { readonly part: keyof typeof PARTS } | null;
  readonly mode: "platform" | "lean";
  readonly kept: boolean;
  readonly event_type: string | null;
  readonly effects: readonly { readonly class: string }[];
}

/** What kind of step it is, beside its name. */
export function kindOf({ type, own, mode, kept, event_type: event, effects }: Kind): string {
  const part = own && PARTS[own.part];
  if (part) return part;
  if (type === "sleep") return "sleep";
  if (type === "waitForEvent") return `wait for ${event ?? "an answer"}`;
  return [effects[0]?.class, mode === "lean" && "lean", kept && "kept from an earlier run"].filter(Boolean).join(", ");
}
