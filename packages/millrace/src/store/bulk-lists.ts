import { now, type Statement, sql } from "../contract/sql.ts";
import { isUncounted } from "./bulk-actions.ts";

/** Maximum number of items of one bulk action. A larger request must narrow its filter. */
export const MAX_MATCHED = 100_000;

/** Maximum count of ids in one row of a list. A row of a list has at most 130 KB. */
export const LISTED_TOGETHER = 1000;

export interface BulkKey {
  readonly tenantId: string;
  readonly id: string;
}

/**
 * Stores the item list of a new bulk action, the oldest item first. The list is the present result of `members`, so that items which match
 * later are not in the list. The statement must follow the insert of the bulk action.
 */
export function freezeMembers({ tenantId, id }: BulkKey, members: Statement, atMost: number): Statement {
  return sql`
    INSERT INTO millrace_bulk_lists (tenant_id, bulk_id, n, ids)
    SELECT ${tenantId}, ${id}, place / ${LISTED_TOGETHER}, json_group_array(id ORDER BY place)
    FROM (SELECT id, row_number() OVER (ORDER BY at, id) - 1 AS place FROM (${members}) LIMIT ${atMost})
    WHERE ${isUncounted(tenantId, id)} GROUP BY place / ${LISTED_TOGETHER}`;
}

/** Stores the given ids as the list of a new bulk action, in JSON arrays of `LISTED_TOGETHER` ids. */
export function listIds({ tenantId, id }: BulkKey, ids: readonly string[]): Statement {
  const lists = Array.from({ length: Math.ceil(ids.length / LISTED_TOGETHER) }, (_, n) =>
    ids.slice(n * LISTED_TOGETHER, (n + 1) * LISTED_TOGETHER),
  );
  return sql`
    INSERT INTO millrace_bulk_lists (tenant_id, bulk_id, n, ids)
    SELECT ${tenantId}, ${id}, l.key, l.value FROM json_each(${JSON.stringify(lists)}) l WHERE ${isUncounted(tenantId, id)}`;
}

/** Selects the row of a bulk action's list that contains a position. */
export function selectList({ tenantId, id }: BulkKey, place: number): Statement {
  return sql`
    SELECT n, ids FROM millrace_bulk_lists WHERE tenant_id = ${tenantId} AND bulk_id = ${id}
      AND n = ${Math.floor(place / LISTED_TOGETHER)}`;
}

/** Removes lists of bulk actions that ended long ago. Returns a row for each. */
export function removeOldLists(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_bulk_lists WHERE (tenant_id, bulk_id, n) IN (
      SELECT l.tenant_id, l.bulk_id, l.n FROM millrace_bulk_actions b
        CROSS JOIN millrace_bulk_lists l ON l.tenant_id = b.tenant_id AND l.bulk_id = b.id
      WHERE b.ended_at <= ${now} - ${keepMs} LIMIT ${limit})
    RETURNING 1 AS gone`;
}
