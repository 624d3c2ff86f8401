import { type Envelope, messageTypeSchema } from "../../contract/envelope.ts";
import type { Hide } from "../../contract/hide.ts";
import { signed } from "../../contract/ids.ts";
import { laneIn } from "../../contract/queue.ts";
import { sayUnmeant } from "../../contract/settings.ts";
import { isTraceparent, type SaidTrace, type SpanUnderWay, spanUnderWay, traceIdOf } from "../../contract/trace.ts";
import type { Delivery } from "../delivery.ts";
import { wordsOf } from "../words.ts";
import { type Attributes, childOf, exportSpans, idsOf, isExported, KIND, type Span, type TraceEnv } from "./exporter.ts";

/** Span attributes with callers' texts, and the field of the envelope for each attribute. */
const CHOSEN = {
  "messaging.message.conversation_id": "correlation_id",
  "millrace.idempotency_key": "idempotency_key",
  "millrace.tenant_id": "tenant_id",
  "millrace.subject": "subject",
} as const;

const MAX_CHARACTERS = 200;
const HASH_DIGITS = 16;

/**
 * The span attributes of a message, from its envelope's fields, which may be unvalidated. Callers' texts are hashed with MILLRACE_KEY, so
 * that spans of one tenant or subject can be grouped. With `OTLP_NAMES=plain` the texts are sent, and `hide` redacts sensitive values in
 * these texts.
 */
export function messageAttributes(env: TraceEnv, fields: { readonly [field: string]: unknown }, hide: Hide): Attributes {
  const isAsked = isPlain(env);
  const chosen = Object.entries(CHOSEN).map(([attribute, field]) => {
    const text = fields[field];
    if (typeof text !== "string") return [attribute, undefined] as const;
    return [attribute, isAsked ? hide(text).slice(0, MAX_CHARACTERS) : hashed(env, field, fields.tenant_id, text)] as const;
  });
  const type = messageTypeSchema.safeParse(fields.message_type);
  return { ...Object.fromEntries(chosen), "millrace.message_type": type.data };
}

/** The hash of a caller's text. Equal texts of one tenant have equal hashes. Undefined for a Worker without MILLRACE_KEY. */
function hashed({ MILLRACE_KEY }: TraceEnv, field: string, tenantId: unknown, text: string): string | undefined {
  return MILLRACE_KEY ? `hmac-${signed(MILLRACE_KEY, "span", field, String(tenantId), text).slice(0, HASH_DIGITS)}` : undefined;
}

/** True if the deployment includes callers' texts and errors' messages in its spans. */
export function isPlain(env: TraceEnv): boolean {
  const { OTLP_NAMES = "" } = env;
  if (OTLP_NAMES === "plain") return true;
  if (OTLP_NAMES !== "" && OTLP_NAMES !== "hashed") {
    sayUnmeant(env, `OTLP_NAMES is ${JSON.stringify(OTLP_NAMES)}: set "hashed" or "plain". Names are hashed until OTLP_NAMES is valid.`);
  }
  return false;
}

/** The messaging system of a queue's messages: Cloudflare Queues, or a lane. */
function systemOf(queue: string): string {
  return laneIn(queue) === undefined ? "cloudflare_queues" : "millrace_lanes";
}

/** A message accepted at an endpoint: the request, the outcome, and the start of the acceptance. */
interface Accepted {
  readonly request: SaidTrace;
  readonly envelope: Envelope;
  readonly queue: string | null;
  readonly outcome: "accepted" | "duplicate";
  readonly startedAt: number;
  /** Redacts the payload's sensitive values where the message's key, subject or source repeats them. */
  readonly hide: Hide;
}

/**
 * The span of a message's acceptance: the first span of its trace, or a child of the caller's span. If a current span already covers the
 * acceptance, no span is created.
 */
export function traceAccepted(env: TraceEnv, { request, envelope, queue, outcome, startedAt, hide }: Accepted): void {
  const own = envelope.traceparent;
  if (!isExported(env, own) || spanUnderWay()?.traceparent.startsWith(own.slice(0, 52))) return;
  const asker = request.traceparent?.trim();
  const parent = isTraceparent(asker) && traceIdOf(asker) === traceIdOf(own) ? asker : undefined;
  const name = laneIn(queue ?? "") ?? queue ?? envelope.message_type;
  exportSpans(env, {
    ...idsOf(own, parent),
    ...{ name: `accept ${name}`, kind: KIND.producer, endedAt: Date.now() },
    // The message is created before its row is committed, and the span of the message's wait starts at the creation.
    startedAt: Math.min(startedAt, Date.parse(envelope.created_at)),
    attributes: {
      ...{ "messaging.system": systemOf(queue ?? ""), "messaging.operation.name": "accept", "messaging.operation.type": "send" },
      ...{ "messaging.destination.name": name, "millrace.outcome": outcome },
      ...messageAttributes(env, envelope, hide),
    },
  });
}

/**
 * Exports the spans of a delivery as children of the sender's span. The spans are the wait in the queue (first delivery only) and the
 * processing. The processing counts as failed if the message is retried or captured.
 */
export function traceDelivery(span: SpanUnderWay, delivery: Delivery, takenAt: number): void {
  const { queue, message, attempt, outcome, waitedMs, deadLetter, code, error, upstreamStatus, hide } = delivery;
  const body = message.body as { traceparent: string };
  const destination = laneIn(queue) ?? queue;
  const attributes = {
    "messaging.system": systemOf(queue),
    "messaging.destination.name": destination,
    "messaging.message.id": message.id,
    ...messageAttributes(span.env, body, hide),
  };
  const failed = FAILED.has(outcome);
  const process: Span = {
    ...idsOf(span.traceparent, body.traceparent),
    ...{ name: `process ${destination}`, kind: KIND.consumer, startedAt: takenAt, endedAt: Date.now() },
    attributes: {
      ...{ ...attributes, "messaging.operation.name": "process", "messaging.operation.type": "process", "faas.trigger": "pubsub" },
      ...{ "millrace.attempt": attempt, "millrace.outcome": outcome, "millrace.waited_ms": waitedMs, "millrace.dead_letter": deadLetter },
      "error.type": failed ? (code ?? outcome) : undefined,
    },
    error: failed ? (error && isPlain(span.env) && wordsOf(span.env, error, upstreamStatus)) || (code ?? outcome) : undefined,
  };
  const waited = attempt === 1 ? waitedMs : undefined;
  const wait = (ms: number): Span => ({
    ...idsOf(childOf(span.traceparent), body.traceparent),
    ...{ name: `wait ${destination}`, kind: KIND.internal, startedAt: takenAt - ms, endedAt: takenAt },
    attributes,
  });
  exportSpans(span.env, ...(waited === undefined ? [] : [wait(waited)]), process);
}

const FAILED: ReadonlySet<Delivery["outcome"]> = new Set(["retried", "captured"]);
