import type { EngineEnv } from "../contract/bindings.ts";
import { sql } from "../contract/sql.ts";
import { query } from "../store/retry.ts";
import type { Action, Operator } from "./audit.ts";
import type { Page } from "./instances.ts";

/** One operator action, as people read it. */
export interface AuditRow {
  id: string;
  actor: string;
  verb: Action["verb"];
  /** The instance, effect key or dead letter it was about. */
  target: string;
  instanceId: string | null;
  reason: string;
  detail: Record<string, unknown> | null;
  /** `no_change` when somebody else had been faster, or there was nothing to do. */
  result: "applied" | "no_change";
  at: number;
  /** When the platform had heard of it too; null while the keeper still owes that. */
  appliedAt: number | null;
}

/** What the tenant's operators did, newest first. Errors: none; an unreadable cursor starts from the top. */
export async function listActions(
  env: EngineEnv,
  by: Operator,
  filter: { cursor?: string | undefined; limit?: number | undefined },
): Promise<Page<AuditRow>> {
  const limit = Math.min(filter.limit ?? 50, 200);
  const [at, id] = (filter.cursor ?? "").split(".");
  const before = at && id && Number.isSafeInteger(Number(at)) ? Number(at) : Number.MAX_SAFE_INTEGER;
  const rows = await query(
    env.DB,
    sql`
      SELECT id, actor, verb, target, instance_id, reason, detail, result, at, applied_at FROM actions
      WHERE tenant_id = ${by.tenantId} AND (at, id) < (${before}, ${id ?? ""})
      ORDER BY at DESC, id DESC LIMIT ${limit + 1}`,
  );
  const items = rows.slice(0, limit).map(asRow);
  const last = items.at(-1);
  return { items, next: rows.length > limit && last ? `${last.at}.${last.id}` : null };
}

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
    appliedAt: row.applied_at === null ? null : Number(row.applied_at),
  };
}
