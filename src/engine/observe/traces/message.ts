import { laneIn } from "../../contract/queue.ts";
import type { Attributes } from "./span.ts";

/** What spans say of a message, by its envelope's fields: names, never what it says. */
export function messageAttributes(fields: { readonly [field: string]: unknown }): Attributes {
  const text = (field: string) => (typeof fields[field] === "string" ? (fields[field] as string).slice(0, 200) : undefined);
  return {
    "messaging.message.conversation_id": text("correlation_id"),
    "millrace.message_type": text("message_type"),
    "millrace.idempotency_key": text("idempotency_key"),
    "millrace.tenant_id": text("tenant_id"),
    "millrace.subject": text("subject"),
  };
}

/** What carries the messages of a queue: Cloudflare Queues, or a lane. */
export function systemOf(queue: string): string {
  return laneIn(queue) === undefined ? "cloudflare_queues" : "millrace_lanes";
}
