import { batch, query, sql } from "../engine/index.ts";

/** The places of a ledger that its rows must fill: none left out. */
export interface Span {
  entity: string;
  first: number;
  last: number;
}

/** Rows dropped by one statement: D1 does nothing else meanwhile. */
const DROPPED_ROWS = 5000;

/** The tenant's ledgers behind a name, in the order of their names. */
export async function ledgersAfter(db: D1Database, tenantId: string, after: string, limit: number): Promise<string[]> {
  const rows = await query<{ entity: string }>(
    db,
    sql`SELECT entity FROM ledgers WHERE tenant_id = ${tenantId} AND entity > ${after} ORDER BY entity LIMIT ${limit}`,
  );
  return rows.map(({ entity }) => entity);
}

/** Drops the rows of ledgers, slice by slice. Rows before `first` stay: their ledger has forgotten what they say. So do those behind `last`, which are still arriving. */
export async function dropRows(db: D1Database, tenantId: string, spans: readonly Span[]): Promise<void> {
  const rows = sql`
    SELECT f.tenant_id, f.entity, f.sequence, f.fact_id FROM json_each(${JSON.stringify(spans)}) l
    CROSS JOIN facts f ON f.tenant_id = ${tenantId} AND f.entity = l.value->>'entity'
      AND f.sequence BETWEEN l.value->>'first' AND l.value->>'last'`;
  for (let more = true; more; ) {
    const [, left = []] = await batch(db, [
      sql`DELETE FROM facts WHERE tenant_id = ${tenantId} AND (tenant_id, entity, sequence, fact_id) IN (${rows} LIMIT ${DROPPED_ROWS})`,
      sql`${rows} LIMIT 1`,
    ]);
    more = left.length > 0;
  }
}

/** A ledger that the projection does not hold whole. */
export interface Gap extends Span {
  /** How many rows it lacks. */
  missing: number;
}

/** Which ledgers the projection does not hold whole. */
export async function gaps(db: D1Database, tenantId: string, spans: readonly Span[]): Promise<Gap[]> {
  return query<Gap>(
    db,
    sql`
      SELECT * FROM (
        SELECT l.value->>'entity' AS entity, l.value->>'first' AS first, l.value->>'last' AS last, (l.value->>'last') - (l.value->>'first') + 1 - (
          SELECT count(*) FROM facts WHERE tenant_id = ${tenantId} AND entity = l.value->>'entity'
            AND sequence BETWEEN l.value->>'first' AND l.value->>'last') AS missing
        FROM json_each(${JSON.stringify(spans)}) l)
      WHERE missing <> 0`,
  );
}

/** The first place of a ledger that has no row; undefined when every place has one. */
export async function firstMissing(db: D1Database, tenantId: string, { entity, first, last }: Span): Promise<number | undefined> {
  const [row] = await query<{ place: number }>(
    db,
    sql`
      SELECT place FROM (
        SELECT ${first} AS place UNION ALL
        SELECT sequence + 1 FROM facts WHERE tenant_id = ${tenantId} AND entity = ${entity} AND sequence >= ${first} AND sequence < ${last})
      WHERE NOT EXISTS (SELECT 1 FROM facts WHERE tenant_id = ${tenantId} AND entity = ${entity} AND sequence = place)
      ORDER BY place LIMIT 1`,
  );
  return row?.place;
}
