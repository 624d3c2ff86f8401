import { type Fragment, fragment, now, type Statement, sql } from "../contract/sql.ts";

/** The pause of a workflow or queue. While the workflow or queue is paused, none of its instances starts. */
export interface Pause {
  readonly id: string;
  /** The id of the tenant whose instances are paused; empty for all tenants. */
  readonly tenant_id: string;
  readonly actor: string;
  readonly reason: string;
  /** The start of the pause in milliseconds since 1970. */
  readonly since: number;
  /** The cause of the failures after which a failure breaker paused the workflow; null for a pause by an operator. */
  readonly cause: string | null;
}

export type PausedKind = "workflow" | "queue";

/** The id of the pause of a workflow or queue. An empty tenant id means all tenants. */
export const pauseId = (kind: PausedKind, name: string, tenantId: string): string => `${kind}/${name}/${tenantId}`;

/** SQL expressions of an instance's workflow, queue and tenant. */
interface Of {
  readonly workflow: string;
  readonly queue: string;
  readonly tenant: string;
}

const OF_ROW: Of = { workflow: "millrace_instances.workflow", queue: "millrace_instances.queue", tenant: "millrace_instances.tenant_id" };

/**
 * An SQL expression of a column of the pause that keeps an instance from starting. The expression is NULL if no pause keeps the instance
 * from starting. The expression reads at most four rows of pauses by key, and reads no row while the deployment has no pause.
 */
export function pauseOf(column: string, { workflow, queue, tenant }: Of = OF_ROW): Fragment {
  const ids = [`'workflow/' || ${workflow}`, `'queue/' || ${queue}`].flatMap((of) => [`${of} || '/'`, `${of} || '/' || ${tenant}`]);
  const pause = `(SELECT ${column} FROM millrace_pauses p WHERE p.id IN (${ids.join(", ")}) AND p.resumed_at IS NULL LIMIT 1)`;
  return fragment(`iif(EXISTS (SELECT 1 FROM millrace_pauses WHERE id > ''), ${pause}, NULL)`);
}

/** Pauses a workflow or queue. An existing pause remains unchanged. */
export function insertPause({ id, tenant_id, actor, reason, cause }: Omit<Pause, "since">): Statement {
  return sql`
    INSERT INTO millrace_pauses (id, tenant_id, actor, reason, since, cause)
    VALUES (${id}, ${tenant_id}, ${actor}, ${reason}, ${now}, ${cause})
    ON CONFLICT (id) DO UPDATE SET actor = excluded.actor, reason = excluded.reason, since = excluded.since, cause = excluded.cause,
      resumed_at = NULL
    WHERE millrace_pauses.resumed_at IS NOT NULL`;
}

/** Resumes a workflow or queue, so that the keeper releases its held instances. */
export function endPause(id: string): Statement {
  return sql`UPDATE millrace_pauses SET resumed_at = ${now} WHERE id = ${id} AND resumed_at IS NULL`;
}

/** Selects the pauses with these ids that have not ended. */
export function selectPauses(ids: readonly string[]): Statement {
  return sql`
    SELECT id, tenant_id, actor, reason, since, cause FROM millrace_pauses
    WHERE id IN (SELECT value FROM json_each(${JSON.stringify(ids)})) AND resumed_at IS NULL`;
}

/** Selects the pauses of all tenants that have not ended. */
export const selectPausesOfAll: Statement = sql`
  SELECT id, tenant_id, actor, reason, since, cause FROM millrace_pauses WHERE tenant_id = '' AND resumed_at IS NULL`;

/**
 * Selects the present pauses that a failure breaker has set. Each row has the paused workflow, and the newest failed instance with the
 * cause of the pause.
 */
export function selectTripped(limit: number): Statement {
  return sql`
    SELECT substr(id, 10, length(id) - length(tenant_id) - 10) AS workflow, since, (
      SELECT i.id FROM millrace_instances i INDEXED BY millrace_instances_by_cause
      WHERE i.tenant_id = p.tenant_id AND i.cause = p.cause AND i.status = 'errored' ORDER BY i.accepted_at DESC LIMIT 1) AS example
    FROM millrace_pauses p INDEXED BY millrace_pauses_by_breaker WHERE cause IS NOT NULL AND resumed_at IS NULL
    ORDER BY since LIMIT ${limit}`;
}

/** A failure breaker counts failures since the latest resume. Retention of an ended pause in milliseconds. */
const LONGEST_WITHIN_MS = 86_400_000;

/** Removes ended pauses that hold no instance and that no failure breaker needs any more. */
export const forgetResumed: Statement = sql`
  DELETE FROM millrace_pauses WHERE resumed_at <= ${now} - ${LONGEST_WITHIN_MS}
    AND NOT EXISTS (SELECT 1 FROM millrace_instances WHERE held_by = millrace_pauses.id)`;
