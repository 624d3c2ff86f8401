import { codeOf, detailOf, messageOf } from "../contract/errors.ts";
import { type Hide, shownCode } from "../contract/hide.ts";
import { type SpanUnderWay, spanIdOf } from "../contract/trace.ts";
import type { Delivered, Delivery } from "./delivery.ts";
import { logDelivery } from "./log/deliveries.ts";
import { countLetters } from "./metrics/runs.ts";
import { traceDelivery } from "./traces/message.ts";
import { childOf, isExported } from "./traces/span.ts";

/** The spans of deliveries. The map contains only exported spans, because an entry for each message would burden the garbage collector. */
const spans = new WeakMap<Delivered, SpanUnderWay>();

/** Begins the spans of a batch at the start of its processing. */
export function noteTaken(env: object, messages: readonly Delivered[]): void {
  for (const message of messages) {
    const traceparent = fieldsOf(message).traceparent;
    if (isExported(env, traceparent)) spans.set(message, { traceparent: childOf(traceparent), env });
  }
}

/**
 * The span of a message's delivery, which is the parent of all spans of the message's processing. Returns undefined if the span is not
 * exported.
 */
export function spanOfDelivery(message: Delivered): SpanUnderWay | undefined {
  return spans.get(message);
}

/** The outcome of a delivery, and the time when its processing began, in milliseconds since 1970. */
interface Noted extends Omit<Delivery, "waitedMs" | "ms"> {
  readonly takenAt: number | undefined;
}

/** Records the outcome of a delivery as one log line and as spans. A message that became a dead letter is also counted. */
export function noteDelivery(env: object, { takenAt: at, ...said }: Noted): void {
  const span = spanOfDelivery(said.message);
  const madeAt = Date.parse(String(fieldsOf(said.message).created_at));
  const waitedMs = at === undefined || Number.isNaN(madeAt) ? undefined : Math.max(0, at - madeAt);
  const delivery = { ...said, waitedMs, ms: at && Date.now() - at };
  logDelivery(env, delivery, span && spanIdOf(span.traceparent));
  if (span && at !== undefined) traceDelivery(span, delivery, at);
  if (said.deadLetter !== undefined) countLetters(env, [{ queue: said.queue, reason: said.code }]);
}

/** The cause of a failed delivery for log, span and counts, without the values of the message's sensitive fields. */
export function causeOf(error: unknown, hide: Hide): Pick<Delivery, "code" | "error" | "upstreamStatus"> {
  const code = codeOf(error);
  return { code: code && shownCode(hide, code), error: hide(messageOf(error)), upstreamStatus: detailOf(error).upstreamStatus };
}

function fieldsOf({ body }: Delivered): Record<string, unknown> {
  return (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
}
