import { namedBatch, query, sql } from "millrace";
import { instances } from "millrace/operate";
import type { Retention } from "millrace/worker";

/** Maximum number of failures that one statement removes. */
const ROWS = 500;

/**
 * Removes syncs of pruned instances, with their failures. The instance is removed first, so that the sync's name cannot be reused. A
 * contact's link remains as long as the contact.
 */
export const crmRetention: readonly Retention[] = [{ name: "crm syncs", keepDays: 30, prune }];

async function prune(env: Cloudflare.Env, keepMs: number): Promise<number> {
  const [old] = await query<{ tenantId: string; syncId: string }>(
    env.DB,
    sql`
      SELECT tenant_id AS tenantId, sync_id AS syncId FROM crm_syncs
      WHERE updated_at <= ${sql.now} - ${keepMs}
        AND NOT ${instances.exists("crm_syncs")}
      LIMIT 1`,
  );
  if (!old) return 0;
  const { tenantId, syncId } = old;
  const mine = sql`tenant_id = ${tenantId} AND sync_id = ${syncId}`;
  // The row of a sync is deleted with the last of its failures, so that the next slice still finds the remaining failures.
  const { failures, syncs } = await namedBatch(env.DB, {
    failures: sql`
      DELETE FROM crm_failures WHERE ${mine} AND contact_id IN (SELECT contact_id FROM crm_failures WHERE ${mine} LIMIT ${ROWS})
      RETURNING 1`,
    syncs: sql`DELETE FROM crm_syncs WHERE ${mine} AND NOT EXISTS (SELECT 1 FROM crm_failures WHERE ${mine}) RETURNING 1`,
  });
  return failures.length + syncs.length;
}
