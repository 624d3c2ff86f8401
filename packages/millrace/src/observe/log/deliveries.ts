import type { Hide } from "../../contract/hide.ts";
import type { LogLevel } from "../../contract/log-line.ts";
import { beginning } from "../../contract/text.ts";
import { isTraceparent, spanIdOf, traceIdOf } from "../../contract/trace.ts";
import type { Delivery } from "../delivery.ts";
import { wordsOf } from "../words.ts";
import { logSampled, MAX_NAME_CHARACTERS } from "./line.ts";

/** Outcomes of a successful delivery. All outcomes that are not in this set are logged with a reason. */
const GOOD: ReadonlySet<Delivery["outcome"]> = new Set(["started", "duplicate", "routed", "kept"]);
/** The delivery outcome after which an operator must act. */
const GRAVE: Delivery["outcome"] = "captured";

/**
 * Logs the outcome of a delivery with the message's identifying fields, without the payload. The envelope's fields may be unvalidated, so
 * only strings are logged, in shortened form.
 */
export function logDelivery(env: object, { queue, message: { id, body }, ...said }: Delivery, spanId: string | undefined): void {
  const fields = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const { traceparent } = fields;
  const trace = isTraceparent(traceparent) ? { trace_id: traceIdOf(traceparent), span_id: spanId ?? spanIdOf(traceparent) } : undefined;
  const { outcome, attempt, waitedMs, ms, deadLetter, code, upstreamStatus, error, hide } = said;
  logSampled(env, levelOf(outcome), trace?.trace_id, () => ({
    log: "delivery",
    ...{ queue, delivery_id: id, attempt, outcome },
    ...namesIn(fields, hide),
    ...trace,
    ...{ waited_ms: waitedMs, ms, dead_letter: deadLetter, code, upstream_status: upstreamStatus },
    ...(!GOOD.has(outcome) && outcome !== "settled" && { will_retry: outcome !== GRAVE }),
    ...(error !== undefined && { error: beginning(wordsOf(env, error, upstreamStatus), MAX_ERROR_CHARACTERS) }),
  }));
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
