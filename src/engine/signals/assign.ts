import { type EngineEnv, workflowBinding } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { messageId } from "../contract/ids.ts";
import { KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { type Fragment, now, type Statement, sql } from "../contract/sql.ts";

/** A wait that has its event: the instance must be told. */
export interface Assigned {
  instance_id: string;
  workflow: string;
  event_type: string;
  signal_id: string;
  envelope: string;
}

/** Keeps events for the instances that wait for them, now or later. */
export function insertSignals(envelopes: readonly Envelope[]): Statement {
  const rows = envelopes.map((envelope) => ({ id: messageId(envelope), envelope }));
  return sql`
    INSERT INTO signals (id, tenant_id, type, subject, envelope, received_at)
    SELECT value->>'id', value->'envelope'->>'tenant_id', value->'envelope'->>'message_type', value->'envelope'->>'subject', value->'envelope', ${now}
    FROM json_each(${JSON.stringify(rows)}) WHERE true
    ON CONFLICT (id) DO NOTHING`;
}

/**
 * Gives each wait for one of these events the oldest that fits and that its instance has not had yet; of several such waits of
 * one instance, the first. The keeper is asked to look at those instances in case they cannot be told now. The first statement answers the waits.
 */
export function assignSignals(envelopes: readonly Envelope[]): Statement[] {
  const arrived = JSON.stringify(envelopes.map(({ tenant_id, message_type, subject }) => ({ tenant_id, message_type, subject })));
  const ids = JSON.stringify(envelopes.map(messageId));
  return [
    sql`
      UPDATE waits SET signal_id = ${OLDEST_FITTING}
      WHERE signal_id IS NULL
        AND (tenant_id, type, subject) IN (SELECT value->>'tenant_id', value->>'message_type', value->>'subject' FROM json_each(${arrived}))
        AND ${OLDEST_FITTING} IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM waits first WHERE first.instance_id = waits.instance_id AND first.type = waits.type AND first.subject = waits.subject
          AND first.signal_id IS NULL AND (first.since_at, first.name) < (waits.since_at, waits.name))
      RETURNING instance_id, workflow, event_type, signal_id, (SELECT envelope FROM signals WHERE id = signal_id) AS envelope`,
    sql`
      UPDATE instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}
      WHERE status = 'waiting' AND id IN (SELECT instance_id FROM waits WHERE signal_id IN (SELECT value FROM json_each(${ids})))`,
  ];
}

/** The event a wait may take: about its subject, not older than its instance, not taken by another wait of the same instance. */
export const OLDEST_FITTING: Fragment = {
  fragment: `(
    SELECT s.id FROM signals s
    WHERE s.tenant_id = waits.tenant_id AND s.type = waits.type AND s.subject = waits.subject
      AND s.received_at >= (SELECT accepted_at FROM instances WHERE id = waits.instance_id)
      AND NOT EXISTS (SELECT 1 FROM waits taken WHERE taken.instance_id = waits.instance_id AND taken.signal_id = s.id)
    ORDER BY s.received_at, s.id LIMIT 1)`,
};

/** Tells waiting instances. What cannot be told now, the keeper tells: the rows already hold the event. */
export async function wake(env: EngineEnv, assigned: readonly Assigned[]): Promise<void> {
  await Promise.all(
    assigned.map(async ({ workflow, instance_id, event_type, envelope }) => {
      try {
        const instance = await workflowBinding(env, workflow).get(instance_id);
        await instance.sendEvent({ type: event_type, payload: JSON.parse(envelope) });
      } catch (error) {
        console.warn(JSON.stringify({ log: "wake", instance_id, error: String(error) }));
      }
    }),
  );
}
