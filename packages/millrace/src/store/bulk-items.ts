import { now, type Statement, sql } from "../contract/sql.ts";
import type { BulkKey } from "./bulk-lists.ts";

/**
 * The result of one item of a bulk action.
 * - `done`: the action was applied, and the item has not failed since
 * - `skipped`: the action had nothing to do
 * - `failed`: the action was refused, or the item failed again. When the engine detects that a `done` item has failed, the item becomes
 *   `failed`.
 */
export const BULK_RESULTS = ["done", "skipped", "failed"] as const;
export type BulkResult = (typeof BULK_RESULTS)[number];

/** A processed item of a bulk action. */
export interface BulkItem {
  /** The item's position in the list. */
  readonly n: number;
  readonly target: string;
  readonly result: BulkResult;
  readonly code: string | null;
  readonly why: string | null;
}

/** Records the results of a chunk. */
export function insertItems({ tenantId, id }: BulkKey, items: readonly BulkItem[]): Statement {
  return sql`
    INSERT INTO millrace_bulk_items (tenant_id, bulk_id, result, n, target, code, why, at)
    SELECT ${tenantId}, ${id}, value->>'result', value->>'n', value->>'target', value->>'code', value->>'why', ${now}
    FROM json_each(${JSON.stringify(items)})`;
}

/** Marks `done` items of a bulk action as failed. */
export function turnFailed({ tenantId, id }: BulkKey, failed: readonly Pick<BulkItem, "n" | "code" | "why">[]): Statement {
  return sql`
    UPDATE millrace_bulk_items SET result = 'failed', code = f.value->>'code', why = f.value->>'why'
    FROM json_each(${JSON.stringify(failed)}) f
    WHERE tenant_id = ${tenantId} AND bulk_id = ${id} AND result = 'done' AND n = f.value->>'n'`;
}

/** Selects the `done` items of a bulk action from the given position onwards, each with the time of its action. */
export function selectDone({ tenantId, id }: BulkKey, from: number, limit: number): Statement {
  return sql`
    SELECT n, target AS id, at, ${now} - at AS "ageMs" FROM millrace_bulk_items
    WHERE tenant_id = ${tenantId} AND bulk_id = ${id} AND result = 'done' AND n >= ${from} ORDER BY n LIMIT ${limit}`;
}

/** Removes items of bulk actions that ended long ago. The statement returns a row for each removed row. */
export function removeOldItems(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_bulk_items WHERE (tenant_id, bulk_id, result, n) IN (
      SELECT t.tenant_id, t.bulk_id, t.result, t.n
      FROM millrace_bulk_actions b CROSS JOIN millrace_bulk_items t ON t.tenant_id = b.tenant_id AND t.bulk_id = b.id
      WHERE b.ended_at <= ${now} - ${keepMs} LIMIT ${limit})
    RETURNING 1 AS gone`;
}
