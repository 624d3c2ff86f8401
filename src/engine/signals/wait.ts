import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { digest } from "../contract/ids.ts";
import { now, type Statement, sql } from "../contract/sql.ts";
import { batch } from "../store/retry.ts";
import { OLDEST_FITTING } from "./assign.ts";

/** The platform's event type for one wait: every wait has its own, because a consumed event can be delivered again to a later wait of the same type. */
export function waitEventType(instanceId: string, label: string): string {
  return `signal-${digest("wait", instanceId, label)}`;
}

/** The run that waits. */
export interface Waiter {
  readonly env: EngineEnv;
  readonly workflow: string;
  readonly instanceId: string;
  readonly envelope: Envelope;
}

/**
 * Says that an instance waits for an event about a subject, and takes one that came early. Answers the event's
 * envelope as JSON if there is one: then there is nothing to wait for. The rows make it hold through restarts: a wait that once
 * took an event is answered with that same event again, and one event serves one wait of an instance.
 */
export async function registerWait(run: Waiter, label: string, type: string, subject: string): Promise<string | null> {
  const { instanceId } = run;
  const { tenant_id } = run.envelope;
  const statements: Statement[] = [
    sql`
      INSERT INTO waits (instance_id, name, workflow, tenant_id, type, subject, event_type, since_at)
      VALUES (${instanceId}, ${label}, ${run.workflow}, ${tenant_id}, ${type}, ${subject}, ${waitEventType(instanceId, label)}, ${now})
      ON CONFLICT (instance_id, name) DO NOTHING`,
    sql`
      UPDATE waits SET signal_id = ${OLDEST_FITTING}
      WHERE instance_id = ${instanceId} AND name = ${label} AND signal_id IS NULL`,
    sql`
      UPDATE instances SET status = 'waiting', updated_at = ${now}
      WHERE id = ${instanceId} AND status IN ('accepted', 'queued', 'running')
        AND EXISTS (SELECT 1 FROM waits WHERE instance_id = ${instanceId} AND name = ${label} AND signal_id IS NULL)`,
    selectHeld(instanceId, label),
  ];
  const row = (await batch(run.env.DB, statements)).at(-1)?.[0];
  return row ? String(row.envelope) : null;
}

/** The event that a wait took, as JSON; undefined when none came. */
export async function heldSignal({ env, instanceId }: Waiter, label: string): Promise<string | undefined> {
  const [rows] = await batch(env.DB, [selectHeld(instanceId, label)]);
  return rows?.[0] && String(rows[0].envelope);
}

function selectHeld(instanceId: string, label: string): Statement {
  return sql`
    SELECT s.envelope FROM waits w JOIN signals s ON s.id = w.signal_id
    WHERE w.instance_id = ${instanceId} AND w.name = ${label}`;
}
