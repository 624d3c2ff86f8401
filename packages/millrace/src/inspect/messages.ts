import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { messageId } from "../contract/ids.ts";
import { among, sql } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";

export interface EmittedMessage {
  step: string;
  envelope: Envelope;
  /** True once its consumer has accepted it. */
  confirmed: boolean;
}

/** The messages that an instance's steps emitted, in the order of the steps, if a copy is kept. */
export async function messagesOf(env: EngineEnv, by: Operator, instanceId: string): Promise<EmittedMessage[]> {
  return (await emittedBy(env, by, instanceId)).messages;
}

/**
 * As `messagesOf`, with the number of emitted messages without a copy. The copies of one step are limited to 250,000 characters; every
 * message was sent.
 */
export async function emittedBy(
  env: EngineEnv,
  by: Operator,
  instanceId: string,
): Promise<{ messages: EmittedMessage[]; leftOut: number }> {
  const rows = await query(
    env.DB,
    sql`
      SELECT e.step, m.value AS envelope, m.value->>'left_out' AS leftOut
      FROM millrace_inbox e JOIN millrace_instances i ON i.id = e.instance_id, json_each(e.messages) m
      WHERE e.instance_id = ${instanceId} AND i.tenant_id = ${by.tenantId}
      ORDER BY e.position < 0, e.position, e.item, e.generation, m.key`,
  );
  const leftOut = rows.reduce((sum, row) => sum + Number(row.leftOut ?? 0), 0);
  const messages = rows
    .filter((row) => row.leftOut === null)
    .map((row) => ({ step: String(row.step), envelope: JSON.parse(String(row.envelope)) as Envelope }));
  if (messages.length === 0) return { messages: [], leftOut };
  const open = await query(
    env.DB,
    sql`SELECT id FROM millrace_outbox
    WHERE id IN ${among(messages.map((one) => messageId(one.envelope)))}`,
  );
  const waiting = new Set(open.map((row) => row.id));
  return {
    messages: messages.map((one) => ({ ...one, confirmed: !waiting.has(messageId(one.envelope)) })),
    leftOut,
  };
}
