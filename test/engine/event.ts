import type { Envelope } from "millrace";

/** An event as a producer outside would send it. */
export function event(
  type: "probe.signal" | "probe.done" | "probe.routed" | "lab.event",
  subject: string,
  payload: unknown,
  key: string = crypto.randomUUID(),
): Envelope {
  return {
    schema_version: 1,
    message_type: type,
    kind: "event",
    source: "test",
    correlation_id: crypto.randomUUID(),
    causation_id: "test",
    idempotency_key: key,
    subject,
    tenant_id: "acme",
    created_at: new Date().toISOString(),
    traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`,
    payload_inline: payload,
  };
}
