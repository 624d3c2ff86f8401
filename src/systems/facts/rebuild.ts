import { namedBatch, query, type Statement, sql } from "millrace";
import type { RecordedFact } from "../../messages/fact.ts";
import { factRow, restoreFacts } from "./projection.ts";

/** Lists the tenant's ledgers after a name, in the order of their names. The ledger of that name is included if its scan must continue. */
export async function ledgersFrom(
  db: D1Database,
  tenantId: string,
  { entity, sequence }: { entity: string; sequence: number | null },
  limit: number,
): Promise<string[]> {
  const rows = await query<{ entity: string }>(
    db,
    sql`
      SELECT entity FROM ledgers
      WHERE tenant_id = ${tenantId} AND entity >= ${entity} AND (${sequence !== null ? 1 : 0} OR entity <> ${entity})
      ORDER BY entity LIMIT ${limit}`,
  );
  return rows.map(({ entity }) => entity);
}

/** Consecutive facts of one ledger, and the facts' range of positions. */
export interface Restored {
  entity: string;
  facts: readonly RecordedFact[];
  first: number;
  /** The position of the last fact; null if the ledger was read to the end. */
  last: number | null;
}

/** The full key of a projection's row. */
export interface RowName {
  entity: string;
  sequence: number;
  fact_id: string;
}

/** Maximum number of rows without a fact in one slice. */
const STRAYS = 500;
const BEFORE_ALL: RowName = { entity: "", sequence: 0, fact_id: "" };

/**
 * Writes facts of ledgers into the projection. Correct rows are not deleted, so that readers always find these rows. Returns the number of
 * missing or wrong rows, and a first slice of the rows in this range that belong to none of the facts.
 */
export async function restoreRows(
  db: D1Database,
  tenantId: string,
  ledgers: readonly Restored[],
): Promise<{ written: number; strays: RowName[] }> {
  const facts = ledgers.flatMap(({ facts }) => facts);
  const rows = facts.map((payload) => factRow({ payload, envelope: { tenant_id: tenantId } }).row);
  const { written, strays } = await namedBatch(db, {
    written: sql.rows(rows).map(restoreFacts),
    strays: selectStrays(tenantId, ledgers, BEFORE_ALL),
  });
  return { written: written.length, strays: strays as unknown as RowName[] };
}

/** The next slice of rows in these ranges that belong to none of the facts; empty if no such rows remain. */
export async function straysBehind(
  db: D1Database,
  tenantId: string,
  ledgers: readonly Restored[],
  seen: readonly RowName[],
): Promise<RowName[]> {
  const last = seen.at(-1);
  return last && seen.length === STRAYS ? query<RowName>(db, selectStrays(tenantId, ledgers, last)) : [];
}

function selectStrays(tenantId: string, ledgers: readonly Restored[], after: RowName): Statement {
  const spans = ledgers.map(({ entity, first, last }) => ({ entity, first, last: last ?? Number.MAX_SAFE_INTEGER }));
  const names = ledgers.flatMap(({ entity, facts }) => facts.map(({ sequence, fact_id }) => [entity, sequence, fact_id]));
  return sql`
    SELECT f.entity, f.sequence, f.fact_id FROM json_each(${JSON.stringify(spans)}) l
    CROSS JOIN facts f ON f.tenant_id = ${tenantId} AND f.entity = l.value->>'entity'
      AND f.sequence BETWEEN l.value->>'first' AND l.value->>'last'
    WHERE (f.entity, f.sequence, f.fact_id) NOT IN (SELECT value->>0, value->>1, value->>2 FROM json_each(${JSON.stringify(names)}))
      AND (f.entity, f.sequence, f.fact_id) > (${after.entity}, ${after.sequence}, ${after.fact_id})
    ORDER BY f.entity, f.sequence, f.fact_id LIMIT ${STRAYS}`;
}

/** Deletes rows of the projection by their full keys. */
export async function deleteRows(db: D1Database, tenantId: string, rows: readonly RowName[]): Promise<void> {
  if (rows.length === 0) return;
  await query(
    db,
    sql`
      DELETE FROM facts WHERE tenant_id = ${tenantId} AND (tenant_id, entity, sequence, fact_id) IN (
        SELECT ${tenantId}, value->>'entity', value->>'sequence', value->>'fact_id' FROM json_each(${JSON.stringify(rows)}))`,
  );
}
