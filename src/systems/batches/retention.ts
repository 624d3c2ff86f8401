import { atomically, query, sql } from "millrace";
import { instances } from "millrace/operate";
import type { Retention } from "millrace/worker";
import { batchFolder } from "./file.ts";
import { forgetSomeKeys } from "./seen.ts";

/** Maximum number of batches that are removed at once, and maximum number of keys that one statement deletes. */
const BATCHES = 10;
const KEYS = 5000;

/**
 * Removes batches whose instance was pruned, and the batches' own files in R2. Files that tenants stored in the bucket remain. The instance
 * is removed before the row, so that the instance's tombstone causes the refusal of a repeated request. If the row were removed before the
 * instance, a repeated command would be a duplicate without an instance, and the new row would remain `accepted`.
 */
export const batchRetention: readonly Retention[] = [{ name: "batches", keepDays: 30, prune }];

async function prune(env: Cloudflare.Env, keepMs: number): Promise<number> {
  const old = await query<{ tenantId: string; batchId: string }>(
    env.DB,
    sql`
      SELECT tenant_id AS tenantId, batch_id AS batchId FROM batches
      WHERE updated_at <= ${sql.now} - ${keepMs}
        AND NOT ${instances.exists("batches")}
      LIMIT ${BATCHES}`,
  );
  let removed = 0;
  for (const one of old) {
    const { objects, truncated } = await env.PAYLOADS.list({ prefix: batchFolder(one.tenantId, one.batchId) });
    if (objects.length > 0) await env.PAYLOADS.delete(objects.map(({ key }) => key));
    removed += objects.length;
    const keys = await query(env.DB, forgetSomeKeys(one, KEYS));
    removed += keys.length;
    // The batch's row is removed last, so that the next run of the retention finds the remaining keys.
    if (truncated || keys.length === KEYS) continue;
    const { tenantId, batchId } = one;
    await atomically(env.DB, [
      sql`DELETE FROM batch_parts WHERE tenant_id = ${tenantId} AND batch_id = ${batchId}`,
      sql`DELETE FROM batches WHERE tenant_id = ${tenantId} AND batch_id = ${batchId}`,
    ]);
    removed++;
  }
  return removed;
}
