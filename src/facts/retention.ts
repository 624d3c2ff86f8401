import { batch, query, type Retention, type Slice, sql } from "../engine/index.ts";

/** What the rule needs of a ledger. */
interface PrunedLedger {
  prune(recordedBefore: number, limit: number): Promise<number>;
  state(): Promise<{ last: number; kept: number }>;
}

/** Rows looked at in one slice, and ledgers asked. */
const ROWS = 1000;
const LEDGERS = 25;
/** Facts a ledger forgets in one call, and calls of one slice: a ledger with more goes on in the next. */
const LEDGER_FACTS = 1000;
const LEDGER_CALLS = 20;

interface Row {
  tenant_id: string;
  entity: string;
  fact_id: string;
  recorded_at: number;
}

/**
 * Facts of long ago leave their ledger, which keeps their names, and then the projection. In this order: a pass that dies between the two
 * finds the rows again and goes on, and a projection made anew is given only what its ledger keeps. The other way round, the ledger's facts
 * would be found by nobody, and come back. A fact that a consumer has not confirmed stays in its ledger, and so does its row.
 *
 * It reads the whole projection, a row about sixty times in its life; an index by time would cost each row a write, which is dearer.
 */
export function factRetention(ledgerOf: (env: Env, tenantId: string, entity: string) => PrunedLedger): Retention {
  return {
    name: "facts",
    keepDays: 400,
    everyHours: 24 * 7,
    async prune(env: Cloudflare.Env, keepMs: number, from: string | null): Promise<Slice> {
      const before = Date.now() - keepMs;
      const { rows, next } = await walk(env.DB, from);
      const old = byLedger(rows.filter((row) => row.recorded_at < before));
      const gone = await Promise.all(
        [...old.values()].map(async (facts) => {
          const [{ tenant_id, entity }] = facts as [Row];
          const firstKept = await pruneLedger(ledgerOf(env, tenant_id, entity), before);
          return facts.map(({ fact_id }) => ({ tenant_id, entity, fact_id, firstKept }));
        }),
      );
      return { removed: await removeRows(env.DB, gone.flat()), next };
    },
  };
}

/** The next rows in the order of their key: of so many ledgers at most that one slice can ask them all. */
async function walk(db: D1Database, from: string | null): Promise<{ rows: Row[]; next: string | null }> {
  const [tenantId, entity, factId] = JSON.parse(from ?? '["","",""]') as [string, string, string];
  const found = await query<Row>(
    db,
    sql`
      SELECT tenant_id, entity, fact_id, recorded_at FROM facts
      WHERE (tenant_id, entity, fact_id) > (${tenantId}, ${entity}, ${factId}) ORDER BY tenant_id, entity, fact_id LIMIT ${ROWS}`,
  );
  const rows = [...byLedger(found).values()].slice(0, LEDGERS).flat();
  const last = rows.at(-1);
  const more = rows.length < found.length || found.length === ROWS;
  return { rows, next: more && last ? JSON.stringify([last.tenant_id, last.entity, last.fact_id]) : null };
}

function byLedger(rows: readonly Row[]): Map<string, Row[]> {
  return Map.groupBy(rows, ({ tenant_id, entity }) => JSON.stringify([tenant_id, entity]));
}

/** Lets a ledger forget what it may. Answers the place of the first fact it keeps: it forgets from the front, so what it keeps are its last ones. */
async function pruneLedger(ledger: PrunedLedger, before: number): Promise<number> {
  for (let call = 0; call < LEDGER_CALLS; call++) if ((await ledger.prune(before, LEDGER_FACTS)) === 0) break;
  const { last, kept } = await ledger.state();
  return last - kept + 1;
}

async function removeRows(db: D1Database, facts: readonly object[]): Promise<number> {
  if (facts.length === 0) return 0;
  const [gone = []] = await batch(db, [
    sql`
      DELETE FROM facts WHERE (tenant_id, entity, fact_id) IN (
        SELECT f.tenant_id, f.entity, f.fact_id FROM json_each(${JSON.stringify(facts)}) g
        JOIN facts f ON f.tenant_id = g.value->>'tenant_id' AND f.entity = g.value->>'entity' AND f.fact_id = g.value->>'fact_id'
        WHERE f.sequence < g.value->>'firstKept')
      RETURNING 1 AS gone`,
  ]);
  return gone.length;
}
