import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { messageId } from "../contract/ids.ts";
import { redacted, timestamp } from "../contract/row.ts";
import { among, sql } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";

export const EmittedMessage = z
  .looseObject({
    step: z.string(),
    confirmed: z
      .boolean()
      .describe("True after the message's consumer accepted it or stored it as a dead letter (see GET /v1/dead-letters)."),
    schema_version: z.int(),
    message_type: z.string(),
    kind: z.enum(["command", "event"]),
    correlation_id: z.string(),
    causation_id: z.string(),
    idempotency_key: z.string(),
    subject: z.string(),
    created_at: timestamp,
    payload_inline: z.unknown().optional().meta(redacted),
    payload_ref: z.string().optional(),
  })
  .meta({ id: "EmittedMessage" });
export type EmittedMessage = Envelope & Pick<z.infer<typeof EmittedMessage>, "step" | "confirmed">;

/** In the order of the steps. Only messages with a stored copy are returned. */
export async function messagesOf(env: EngineEnv, by: Operator, instanceId: string): Promise<EmittedMessage[]> {
  return (await emittedBy(env, by, instanceId)).messages;
}

/** With the count of sent messages without a stored copy: the copies of a step are limited to 250,000 characters. */
export async function emittedBy(env: EngineEnv, by: Operator, instanceId: string) {
  const rows = await query(
    env.DB,
    sql`
      SELECT e.step, m.value AS envelope, m.value->>'omitted' AS omitted
      FROM millrace_inbox e JOIN millrace_instances i ON i.id = e.instance_id, json_each(e.messages) m
      WHERE e.instance_id = ${instanceId} AND i.tenant_id = ${by.tenantId}
      ORDER BY e.position < 0, e.position, e.item, e.generation, m.key`,
  );
  const leftOut = rows.reduce((sum, row) => sum + Number(row.omitted ?? 0), 0);
  const messages = rows
    .filter((row) => row.omitted === null)
    .map((row) => ({ step: String(row.step), ...(JSON.parse(String(row.envelope)) as Envelope) }));
  if (messages.length === 0) return { messages: [], leftOut };
  const open = await query(env.DB, sql`SELECT id FROM millrace_outbox WHERE id IN ${among(messages.map(messageId))}`);
  const waiting = new Set(open.map((row) => row.id));
  return { messages: messages.map((one): EmittedMessage => ({ ...one, confirmed: !waiting.has(messageId(one)) })), leftOut };
}
