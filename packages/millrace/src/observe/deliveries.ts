import { codeOf, detailOf, messageOf } from "../contract/errors.ts";
import { type Hide, shownCode } from "../contract/hide.ts";
import type { LogLevel } from "../contract/log-line.ts";
import { beginning } from "../contract/text.ts";
import { isTraceparent, type SpanUnderWay, spanIdOf, traceIdOf } from "../contract/trace.ts";
import type { Delivered, Delivery } from "./delivery.ts";
import { logSampled, MAX_NAME_CHARACTERS } from "./log/instances.ts";
import { countLetters } from "./metrics/runs.ts";
import { childOf, isExported } from "./traces/exporter.ts";
import { traceDelivery } from "./traces/message.ts";
import { wordsOf } from "./words.ts";

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
export function noteDelivery(env: object, noted: Noted): void {
  const span = spanOfDelivery(noted.message);
  logDelivery(env, noted, span && spanIdOf(span.traceparent));
  if (span && noted.takenAt !== undefined) traceDelivery(span, timed(noted), noted.takenAt);
  if (noted.deadLetter !== undefined) countLetters(env, [{ queue: noted.queue, reason: noted.code }]);
}

function timed(noted: Noted): Delivery {
  const { takenAt: at, message } = noted;
  const madeAt = Date.parse(String(fieldsOf(message).created_at));
  const waitedMs = at === undefined || Number.isNaN(madeAt) ? undefined : Math.max(0, at - madeAt);
  return { ...noted, waitedMs, ms: at && Date.now() - at };
}

/** The cause of a failed delivery for log, span and counts, without the values of the message's sensitive fields. */
export function causeOf(error: unknown, hide: Hide): Pick<Delivery, "code" | "error" | "upstreamStatus"> {
  const code = codeOf(error);
  return { code: code && shownCode(hide, code), error: hide(messageOf(error)), upstreamStatus: detailOf(error).upstreamStatus };
}

function fieldsOf({ body }: Delivered): Record<string, unknown> {
  return (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
}

/** Outcomes of a successful delivery. All outcomes that are not in this set are logged with a reason. */
const GOOD: ReadonlySet<Delivery["outcome"]> = new Set(["started", "duplicate", "routed", "kept"]);
/** The delivery outcome after which an operator must act. */
const GRAVE: Delivery["outcome"] = "captured";

/**
 * Logs the outcome of a delivery with the message's identifying fields, without the payload. The envelope's fields may be unvalidated, so
 * only strings are logged, in shortened form.
 */
function logDelivery(env: object, noted: Noted, spanId: string | undefined): void {
  const fields = fieldsOf(noted.message);
  const traceparent = isTraceparent(fields.traceparent) ? fields.traceparent : undefined;
  logSampled(env, levelOf(noted.outcome), traceparent && traceIdOf(traceparent), () => {
    const { queue, message, outcome, attempt, waitedMs, ms, deadLetter, code, upstreamStatus, error, hide } = timed(noted);
    return {
      log: "delivery",
      ...{ queue, delivery_id: message.id, attempt, outcome },
      ...namesIn(fields, hide),
      ...(traceparent && { trace_id: traceIdOf(traceparent), span_id: spanId ?? spanIdOf(traceparent) }),
      ...{ waited_ms: waitedMs, ms, dead_letter: deadLetter, code, upstream_status: upstreamStatus },
      ...(!GOOD.has(outcome) && outcome !== "settled" && { will_retry: outcome !== GRAVE }),
      ...(error !== undefined && { error: beginning(wordsOf(env, error, upstreamStatus), MAX_ERROR_CHARACTERS) }),
    };
  });
}

function namesIn(fields: Record<string, unknown>, hide: Hide): Record<string, string | undefined> {
  return Object.fromEntries(
    NAMES.map((field) => {
      const value = fields[field];
      if (typeof value !== "string") return [field, undefined];
      return [field, beginning(MAY_REPEAT_PAYLOAD.has(field) ? hide(value) : value, MAX_NAME_CHARACTERS)];
    }),
  );
}

function levelOf(outcome: Delivery["outcome"]): LogLevel {
  if (GOOD.has(outcome)) return "info";
  return outcome === GRAVE ? "error" : "warn";
}

/** The envelope's fields that often repeat parts of the payload, unlike the fields that identify the job. */
const MAY_REPEAT_PAYLOAD: ReadonlySet<string> = new Set(["idempotency_key", "subject", "source"]);
const NAMES = ["tenant_id", "correlation_id", "idempotency_key", "message_type", "subject", "source"];
const MAX_ERROR_CHARACTERS = 1000;
