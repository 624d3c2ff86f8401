import { batch as atomic, now, query, type Retention, sql } from "../engine/index.ts";
import { batchFolder } from "./file.ts";
import { forgetKeys } from "./seen.ts";

/** Batches of one slice. */
const BATCHES = 10;

/** Batches that have ended, with what they kept in R2. One whose instance is stopped stays until somebody has seen to that; files that tenants put into the bucket are theirs. */
export const batchRetention: readonly Retention[] = [{ name: "batches", keepDays: 30, prune }];

async function prune(env: Cloudflare.Env, keepMs: number): Promise<number> {
  const old = await query<{ tenantId: string; batchId: string }>(
    env.DB,
    sql`
      SELECT tenant_id AS tenantId, batch_id AS batchId FROM batches
      WHERE updated_at <= ${now} - ${keepMs}
        AND (ended_at IS NOT NULL OR NOT EXISTS (SELECT 1 FROM instances WHERE instances.id = batches.instance_id))
      LIMIT ${BATCHES}`,
  );
  let removed = 0;
  for (const one of old) {
    const { objects, truncated } = await env.PAYLOADS.list({ prefix: batchFolder(one.tenantId, one.batchId) });
    if (objects.length > 0) await env.PAYLOADS.delete(objects.map(({ key }) => key));
    removed += objects.length;
    // The row goes last: as long as it is there, the next slice comes back for the rest.
    if (truncated) continue;
    const { tenantId, batchId } = one;
    await atomic(env.DB, [
      forgetKeys(one),
      sql`DELETE FROM batch_parts WHERE tenant_id = ${tenantId} AND batch_id = ${batchId}`,
      sql`DELETE FROM batches WHERE tenant_id = ${tenantId} AND batch_id = ${batchId}`,
    ]);
    removed++;
  }
  return removed;
}
