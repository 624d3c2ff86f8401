import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { messageId } from "../contract/ids.ts";
import { among, sql } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";

/** A message an instance's step emitted. */
export interface EmittedMessage {
  step: string;
  envelope: Envelope;
  /** True once its consumer has taken it. */
  confirmed: boolean;
}

/** The messages an instance's steps emitted, in the order of the steps: those of which a copy is kept. */
export async function messagesOf(env: EngineEnv, by: Operator, instanceId: string): Promise<EmittedMessage[]> {
  return (await emittedBy(env, by, instanceId)).messages;
}

/**
 * The same, and how many more its steps emitted of which no copy is kept: what a step emits at once is kept up to 250,000 characters. All
 * were sent.
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
