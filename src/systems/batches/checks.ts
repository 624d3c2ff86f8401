import { ids, query, sql } from "millrace";
import { instances } from "millrace/operate";
import type { Check } from "millrace/worker";

/** Maximum number of batches that the check reads at once. */
const ROWS = 250;

interface Row {
  tenant_id: string;
  batch_id: string;
  operation: string;
  state: string;
  stopped: number;
  unread: number;
}

/** Compares batches with their instances, and compares the byte counts of batches with the sizes of their files. */
export const batchCheck: Check = {
  name: "batches",
  everyHours: 24,
  kinds: {
    batch_left: { says: "A batch is running, but an operator has ended its instance, or the instance is missing." },
    batch_miscounted: { says: "A batch is complete, but its count of bytes is less than the size of its file." },
  },
  async slice(env, from) {
    const [tenantId, batchId] = from === null ? ["", ""] : (JSON.parse(from) as [string, string]);
    const { join } = instances.find("b");
    const rows = await query<Row & Record<string, unknown>>(
      env.DB,
      sql`
        SELECT b.tenant_id, b.batch_id, b.operation, b.state,
          b.state IN ('accepted', 'running', 'cancelling') AND (i.id IS NULL OR i.status = 'terminated') AS stopped,
          b.state = 'complete' AND b.total_bytes IS NOT NULL AND b.read_bytes < b.total_bytes AS unread
        FROM batches b ${join}
        WHERE (b.tenant_id, b.batch_id) >= (${tenantId}, ${batchId}) ORDER BY b.tenant_id, b.batch_id LIMIT ${ROWS + 1}`,
    );
    const next = rows[ROWS];
    const found = rows.slice(0, ROWS).flatMap(({ tenant_id, batch_id, operation, state, stopped, unread }) => {
      const about = { what: ids.digest("batch", tenant_id, batch_id), tenantId: tenant_id, place: JSON.stringify([tenant_id, batch_id]) };
      return [
        ...(stopped ? [{ ...about, kind: "batch_left", detail: `A ${operation} says ${state}, and no instance works on it.` }] : []),
        ...(unread ? [{ ...about, kind: "batch_miscounted", detail: `A ${operation} says complete, and was not read to its end.` }] : []),
      ];
    });
    return { found, next: next ? JSON.stringify([next.tenant_id, next.batch_id]) : null };
  },
};
