import { codeOf, detailOf, messageOf } from "../contract/errors.ts";
import { type Hide, shownCode } from "../contract/hide.ts";
import { type SpanUnderWay, spanIdOf } from "../contract/trace.ts";
import type { Delivered, Delivery } from "./delivery.ts";
import { logDelivery } from "./log/deliveries.ts";
import { countLetters } from "./metrics/runs.ts";
import { traceDelivery } from "./traces/deliveries.ts";
import { childOf, isExported } from "./traces/span.ts";

/** Only of those that are exported: an entry of each message would take the garbage collector longer than all else that is noted here. */
const spans = new WeakMap<Delivered, SpanUnderWay>();

/** Begins the spans of a batch that is worked on from now on. */
export function noteTaken(env: object, messages: readonly Delivered[]): void {
  for (const message of messages) {
    const traceparent = fieldsOf(message).traceparent;
    if (isExported(env, traceparent)) spans.set(message, { traceparent: childOf(traceparent), env });
  }
}

/** The span of a message's delivery: what its handling leads to is a child of it. Undefined where it is not exported. */
export function spanOfDelivery(message: Delivered): SpanUnderWay | undefined {
  return spans.get(message);
}

/** What became of a delivery, and since when it was worked on, in milliseconds since 1970. */
interface Noted extends Omit<Delivery, "waitedMs" | "ms"> {
  readonly takenAt: number | undefined;
}

/** Notes what became of a delivery: one line of the log, its spans, and a count if it became a dead letter. */
export function noteDelivery(env: object, { takenAt: at, ...said }: Noted): void {
  const span = spanOfDelivery(said.message);
  const madeAt = Date.parse(String(fieldsOf(said.message).created_at));
  const waitedMs = at === undefined || Number.isNaN(madeAt) ? undefined : Math.max(0, at - madeAt);
  const delivery = { ...said, waitedMs, ms: at && Date.now() - at };
  logDelivery(env, delivery, span && spanIdOf(span.traceparent));
  if (span && at !== undefined) traceDelivery(span, delivery, at);
  if (said.deadLetter !== undefined) countLetters(env, [{ queue: said.queue, reason: said.code }]);
}

/** Why a delivery failed, as its line, its span and what counts it may say it: without what its message withholds. */
export function causeOf(error: unknown, hide: Hide): Pick<Delivery, "code" | "error" | "upstreamStatus"> {
  const code = codeOf(error);
  return { code: code && shownCode(hide, code), error: hide(messageOf(error)), upstreamStatus: detailOf(error).upstreamStatus };
}

function fieldsOf({ body }: Delivered): Record<string, unknown> {
  return (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
}
