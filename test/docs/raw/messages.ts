import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import * as z from "zod";

/** The shape of every message on a queue. */
const envelope = z.strictObject({
  schema_version: z.literal(1),
  message_type: z.string().min(1).max(100),
  kind: z.enum(["command", "event"]),
  source: z.string().min(1),
  correlation_id: z.string().min(1),
  causation_id: z.string().min(1),
  idempotency_key: z.string().min(1).max(500),
  subject: z.string().min(1),
  tenant_id: z.string().min(1),
  created_at: z.iso.datetime(),
  traceparent: z.string(),
  payload_inline: z.unknown().optional(),
});

const customer = z.object({ customer_id: z.string().min(1).max(60), email: z.email() });
const welcomed = z.object({ customer_id: z.string(), account: z.string() });

export const CustomerWelcome = envelope.extend({
  message_type: z.literal("customer.welcome"),
  kind: z.literal("command"),
  payload_inline: customer,
});
export const CustomerWelcomed = envelope.extend({
  message_type: z.literal("customer.welcomed"),
  kind: z.literal("event"),
  payload_inline: welcomed,
});
export type CustomerWelcome = z.infer<typeof CustomerWelcome>;
export type CustomerWelcomed = z.infer<typeof CustomerWelcomed>;

/** A permanently invalid message, with the reason. */
export class Malformed extends Error {
  constructor(
    readonly reason: "invalid_envelope" | "invalid_payload" | "unknown_message_type" | "idempotency_key_reused",
    message: string,
  ) {
    super(message);
  }
}

/** Reads a message of one type. Throws `Malformed`. */
export function read<T extends typeof CustomerWelcome | typeof CustomerWelcomed>(schema: T, body: unknown): z.infer<T> {
  const shape = envelope.safeParse(body);
  if (!shape.success) throw new Malformed("invalid_envelope", z.prettifyError(shape.error));
  const type = schema.shape.message_type.value;
  if (shape.data.message_type !== type) throw new Malformed("unknown_message_type", `This queue carries ${type} only.`);
  const message = schema.safeParse(body);
  if (!message.success) throw new Malformed("invalid_payload", z.prettifyError(message.error));
  return message.data as z.infer<T>;
}

/** The command in the API's form. Throws `Malformed`. */
export function readRequest(body: unknown): z.infer<typeof customer> {
  const request = z.object({ type: z.string(), payload: z.unknown().optional() }).safeParse(body);
  if (!request.success) throw new Malformed("invalid_envelope", z.prettifyError(request.error));
  if (request.data.type !== "customer.welcome") throw new Malformed("unknown_message_type", `No command "${request.data.type}" is known.`);
  const payload = customer.safeParse(request.data.payload);
  if (!payload.success) throw new Malformed("invalid_payload", z.prettifyError(payload.error));
  return payload.data;
}

/** The name of a unit of work: the same customer of the same tenant is the same instance. */
export function commandId({ tenant_id, idempotency_key }: CustomerWelcome): string {
  return hash(["customer.welcome", tenant_id, idempotency_key]);
}

/** True if two messages under one key have the same content. */
export function fingerprint({ payload_inline }: CustomerWelcome): string {
  return hash(payload_inline);
}

export function hash(value: unknown): string {
  return createHash("sha256")
    .update(canonicalize(value) ?? "")
    .digest("hex")
    .slice(0, 32);
}
