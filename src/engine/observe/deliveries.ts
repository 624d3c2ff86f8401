import { codeOf, MillraceError, messageOf } from "../contract/errors.ts";
import { type SpanUnderWay, spanIdOf } from "../contract/trace.ts";
import type { Delivered, Delivery } from "./delivery.ts";
import { logDelivery } from "./log/deliveries.ts";
import { countLetters } from "./metrics/runs.ts";
import { traceDelivery } from "./traces/deliveries.ts";
import { childOf, isExported } from "./traces/span.ts";

/** A delivery that is being worked on. */
interface Taken {
  readonly at: number;
  readonly span: SpanUnderWay | undefined;
}

const taken = new WeakMap<Delivered, Taken>();

/** Notes since when a batch is worked on, in milliseconds since 1970. */
export function noteTaken(env: object, messages: readonly Delivered[], at: number): void {
  for (const message of messages) {
    const traceparent = fieldsOf(message).traceparent;
    taken.set(message, { at, span: isExported(env, traceparent) ? { traceparent: childOf(traceparent), env } : undefined });
  }
}

/** The span of a message's delivery: what its handling leads to is a child of it. Undefined where it is not exported. */
export function spanOfDelivery(message: Delivered): SpanUnderWay | undefined {
  return taken.get(message)?.span;
}

/** Notes what became of a delivery: one line of the log, its spans, and a count if it became a dead letter. */
export function noteDelivery(env: object, said: Omit<Delivery, "waitedMs" | "ms">): void {
  const { at, span } = taken.get(said.message) ?? {};
  const madeAt = Date.parse(String(fieldsOf(said.message).created_at));
  const waitedMs = at === undefined || Number.isNaN(madeAt) ? undefined : Math.max(0, at - madeAt);
  const delivery = { ...said, waitedMs, ms: at && Date.now() - at };
  logDelivery(env, delivery, span && spanIdOf(span.traceparent));
  if (span && at !== undefined) traceDelivery(span, delivery, at);
  if (said.deadLetter !== undefined) countLetters(env, [{ queue: said.queue, reason: said.code }]);
}

/** Why a delivery failed, as its line says it. */
export function causeOf(error: unknown): Pick<Delivery, "code" | "error" | "upstreamStatus"> {
  const upstreamStatus = error instanceof MillraceError ? error.detail.upstreamStatus : undefined;
  return { code: codeOf(error), error: messageOf(error), upstreamStatus };
}

function fieldsOf({ body }: Delivered): Record<string, unknown> {
  return (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
}
