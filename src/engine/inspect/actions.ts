import type { EngineEnv } from "../contract/bindings.ts";
import { sql } from "../contract/sql.ts";
import type { Action, ActionResult, Operator } from "../store/actions.ts";
import { keysetPage, type Page, type PageRequest } from "../store/paging.ts";
import { query } from "../store/retry.ts";

/** One operator action, as people read it. */
export interface AuditRow {
  id: string;
  actor: string;
  verb: Action["verb"];
  /** The instance, effect key, approval or dead letter it was about. */
  target: string;
  instanceId: string | null;
  reason: string;
  detail: Record<string, unknown> | null;
  /**
   * `no_change` when somebody else had been faster, or there was nothing to do; `failed` when the platform could not be told within a day.
   */
  result: ActionResult;
  at: number;
  /** When the platform had heard of it too; null while the keeper still owes that. */
  appliedAt: number | null;
  /** What the last try to tell the platform failed of; null once it has heard. */
  error: string | null;
}

/** What the tenant's operators did, newest first. */
export function listActions(env: EngineEnv, by: Operator, request: PageRequest): Promise<Page<AuditRow>> {
  return keysetPage(request, identity, async (before, limit) => {
    const rows = await query(
      env.DB,
      sql`
        SELECT id, actor, verb, target, instance_id, reason, detail, result, at, applied_at, error FROM actions
        WHERE tenant_id = ${by.tenantId} AND (at, id) < (${before.at}, ${before.id})
        ORDER BY at DESC, id DESC LIMIT ${limit}`,
    );
    return rows.map(asRow);
  });
}

/**
 * Whether an operator has retried an instance at or after a moment by the database's clock, in milliseconds: for a step that goes on only
 * at a person's word. Once true, it stays true for as long as the audit is kept.
 */
export async function retriedSince(env: EngineEnv, tenantId: string, instanceId: string, at: number): Promise<boolean> {
  const found = await query(
    env.DB,
    sql`
      SELECT 1 FROM actions
      WHERE tenant_id = ${tenantId} AND at >= ${at} AND instance_id = ${instanceId} AND verb = 'retry' AND result = 'applied' LIMIT 1`,
  );
  return found.length > 0;
}

const identity = ({ at, id }: AuditRow) => ({ at, id });

function asRow(row: Record<string, unknown>): AuditRow {
  return {
    id: String(row.id),
    actor: String(row.actor),
    verb: row.verb as AuditRow["verb"],
    target: String(row.target),
    instanceId: row.instance_id as string | null,
    reason: String(row.reason),
    detail: row.detail ? (JSON.parse(String(row.detail)) as Record<string, unknown>) : null,
    result: row.result as AuditRow["result"],
    at: Number(row.at),
    appliedAt: row.applied_at === null || row.result === "failed" ? null : Number(row.applied_at),
    error: row.error as string | null,
  };
}
