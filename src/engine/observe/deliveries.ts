import type { QueueDefinition } from "../contract/queue.ts";
import { beginning } from "../contract/text.ts";

/** What became of one delivered message that was not simply taken in, and why. */
export interface LoggedDelivery {
  attempt: number;
  outcome: "retried" | "captured" | "settled";
  /** The dead letter that holds it. */
  dead_letter?: string;
  code?: string | undefined;
  error?: string;
}

/**
 * Says in the log what became of a message, by its names, never its payload. What nobody has checked may be anything, so only texts are
 * said, and those not whole.
 */
export function logDelivery({ name: queue }: QueueDefinition, { id, body }: Pick<Message, "id" | "body">, said: LoggedDelivery): void {
  const fields = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const text = (field: string, max = MAX_NAME_CHARACTERS) => {
    const value = fields[field];
    return typeof value === "string" ? beginning(value, max) : undefined;
  };
  const names = Object.fromEntries(NAMES.map((field) => [field, text(field)]));
  const trace_id = text("traceparent")?.slice(3, 35);
  const { error, ...rest } = said;
  const why = error === undefined ? {} : { error: beginning(error, MAX_ERROR_CHARACTERS) };
  console.warn(JSON.stringify({ log: "delivery", queue, delivery_id: id, ...names, trace_id, ...rest, ...why }));
}

const NAMES = ["tenant_id", "correlation_id", "idempotency_key", "message_type", "subject"];
const MAX_NAME_CHARACTERS = 200;
const MAX_ERROR_CHARACTERS = 1000;
