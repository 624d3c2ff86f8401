import { now, type Statement, sql } from "../contract/sql.ts";
import type { BulkKey } from "./bulk-lists.ts";

/**
 * What came of one thing. `done`: it was acted upon, and has not failed since · `skipped`: there was nothing to do any more · `failed`: it
 * was refused, or it failed again. A `done` one becomes `failed` once that is seen.
 */
export const BULK_RESULTS = ["done", "skipped", "failed"] as const;
export type BulkResult = (typeof BULK_RESULTS)[number];

/** A thing that was acted upon. */
export interface BulkItem {
  /** Its place in the list. */
  readonly n: number;
  readonly target: string;
  readonly result: BulkResult;
  readonly code: string | null;
  readonly why: string | null;
}

/** Writes down what came of a chunk. */
export function insertItems({ tenantId, id }: BulkKey, items: readonly BulkItem[]): Statement {
  return sql`
    INSERT INTO millrace_bulk_items (tenant_id, bulk_id, result, n, target, code, why, at)
    SELECT ${tenantId}, ${id}, value->>'result', value->>'n', value->>'target', value->>'code', value->>'why', ${now}
    FROM json_each(${JSON.stringify(items)})`;
}

/** Those of which it turned out that they have failed. */
export function turnFailed({ tenantId, id }: BulkKey, failed: readonly Pick<BulkItem, "n" | "code" | "why">[]): Statement {
  return sql`
    UPDATE millrace_bulk_items SET result = 'failed', code = f.value->>'code', why = f.value->>'why'
    FROM json_each(${JSON.stringify(failed)}) f
    WHERE tenant_id = ${tenantId} AND bulk_id = ${id} AND result = 'done' AND n = f.value->>'n'`;
}

/** What is done from a place on, with the time when it was. */
export function selectDone({ tenantId, id }: BulkKey, from: number, limit: number): Statement {
  return sql`
    SELECT n, target, at, ${now} - at AS "ageMs" FROM millrace_bulk_items
    WHERE tenant_id = ${tenantId} AND bulk_id = ${id} AND result = 'done' AND n >= ${from} ORDER BY n LIMIT ${limit}`;
}

/** How many have failed of a code. */
export function countFailed({ tenantId, id }: BulkKey, code: string): Statement {
  return sql`
    SELECT count(*) AS count FROM millrace_bulk_items
    WHERE tenant_id = ${tenantId} AND bulk_id = ${id} AND result = 'failed' AND code = ${code}`;
}

/** Removes items of bulk actions that ended long ago. Answers a row for each. */
export function removeOldItems(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_bulk_items WHERE (tenant_id, bulk_id, result, n) IN (
      SELECT t.tenant_id, t.bulk_id, t.result, t.n
      FROM millrace_bulk_actions b CROSS JOIN millrace_bulk_items t ON t.tenant_id = b.tenant_id AND t.bulk_id = b.id
      WHERE b.ended_at <= ${now} - ${keepMs} LIMIT ${limit})
    RETURNING 1 AS gone`;
}
