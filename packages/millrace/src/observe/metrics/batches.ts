import { count, observe } from "./count.ts";

/** A delivered batch whose messages are settled. */
interface SettledBatch {
  readonly queue: string;
  readonly messages: readonly Pick<Message, "attempts" | "timestamp" | "body">[];
  /** What became of each, in the same order. */
  readonly outcomes: readonly string[];
  /** When it was delivered, in milliseconds since the epoch. */
  readonly beganAt: number;
  /** Whether a type is one that the deployment knows. */
  readonly isKnown: (type: string) => boolean;
}

/** Counts a batch: its size and duration, how long its messages waited for their first delivery, and what became of each by its type. */
export function countBatch(env: object, { queue, messages, outcomes, beganAt, isKnown }: SettledBatch): void {
  const retried = outcomes.filter((outcome) => outcome === "retried").length;
  count(env, "queue_messages_received_total", { queue }, messages.length);
  count(env, "queue_messages_retried_total", { queue }, retried);
  count(env, "queue_messages_acked_total", { queue }, messages.length - retried);
  observe(env, "queue_batch_size", { queue }, messages.length);
  observe(env, "queue_processing_duration_seconds", { queue }, (Date.now() - beganAt) / 1000);
  const first = messages.filter(({ attempts }) => attempts === 1);
  observe(env, "queue_wait_seconds", { queue }, ...first.map(({ timestamp }) => (beganAt - timestamp.getTime()) / 1000));
  for (const [type, same] of Map.groupBy(messages.entries(), ([, { body }]) => typeOf(body, isKnown)))
    for (const [outcome, { length }] of Map.groupBy(same, ([index]) => outcomes[index] ?? "retried"))
      count(env, "messages_total", { queue, type, outcome }, length);
}

/** A type that nobody here knows may be any text that a sender chose. */
function typeOf(body: unknown, isKnown: (type: string) => boolean): string {
  const type = (body as { message_type?: unknown } | null | undefined)?.message_type;
  return typeof type === "string" && isKnown(type) ? type : UNKNOWN_TYPE;
}

/** The type of all messages that no deployed code names. */
const UNKNOWN_TYPE = "unknown";
