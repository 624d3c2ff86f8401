import { messageTypeSchema } from "../../contract/envelope.ts";
import type { Hide } from "../../contract/hide.ts";
import { signed } from "../../contract/ids.ts";
import { laneIn } from "../../contract/queue.ts";
import { sayUnmeant } from "../../contract/settings.ts";
import type { Attributes, TraceEnv } from "./span.ts";

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
export function systemOf(queue: string): string {
  return laneIn(queue) === undefined ? "cloudflare_queues" : "millrace_lanes";
}
