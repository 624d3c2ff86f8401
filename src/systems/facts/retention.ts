import { logLine, messageOf, query, sql } from "millrace";
import type { Retention, Slice } from "millrace/worker";

interface PrunedLedger {
  prune(recordedBefore: number, limit: number): Promise<number>;
  state(): Promise<{ first: number }>;
}

/** How long a ledger keeps a fact, and may send it again. */
export const FACT_DAYS = 400;
/** Maximum number of rows read, and of ledgers called, in one slice. */
const ROWS = 1000;
const LEDGERS = 25;
/** Facts that a ledger prunes in one call, and calls of one slice. A ledger with more old facts continues in the next slice. */
const LEDGER_FACTS = 1000;
const LEDGER_CALLS = 20;

interface Row {
  tenant_id: string;
  entity: string;
  sequence: number;
  recorded_at: number;
}

/**
 * Old facts are removed from their ledger, which keeps their names, and then from the projection. Because of this order, an interrupted
 * run finds the rows again, and a rebuilt projection contains only facts that the ledger keeps. In the other order, the facts in the
 * ledger would never be found, and a rebuild would restore their rows. Unconfirmed facts and their rows remain.
 *
 * The rule reads the whole projection, each row about sixty times in its life. An index by time would cost each row a write, which is more
 * expensive.
 */
export function factRetention(ledgerOf: (env: Env, tenantId: string, entity: string) => PrunedLedger): Retention {
  return {
    name: "facts",
    keepDays: FACT_DAYS,
    everyHours: 24 * 7,
    async prune(env: Cloudflare.Env, keepMs: number, from: string | null): Promise<Slice> {
      const before = Date.now() - keepMs;
      const { old, next } = await walk(env.DB, before, from);
      const gone = await Promise.all(
        old.map(async ({ tenantId, entity, first, last }) => {
          const kept = await pruneLedger(ledgerOf(env, tenantId, entity), before).catch((error) => stays(tenantId, entity, first, error));
          return { tenantId, entity, first, last: Math.min(last, kept - 1) };
        }),
      );
      return {
        removed: await removeRows(
          env.DB,
          gone.filter(({ first, last }) => first <= last),
        ),
        next,
      };
    },
  };
}

interface Stretch {
  tenantId: string;
  entity: string;
  first: number;
  last: number;
}

/**
 * The old rows among the next ones, in key order, and the start of the next slice: before the first ledger that does not fit.
 */
async function walk(db: D1Database, before: number, from: string | null): Promise<{ old: Stretch[]; next: string | null }> {
  const [tenantId, entity, sequence] = JSON.parse(from ?? '["","",0]') as [string, string, number];
  const rows = await query<Row>(
    db,
    sql`
      SELECT tenant_id, entity, sequence, recorded_at FROM facts
      WHERE (tenant_id, entity, sequence) > (${tenantId}, ${entity}, ${sequence}) ORDER BY tenant_id, entity, sequence LIMIT ${ROWS}`,
  );
  const old = [...byLedger(rows.filter((row) => row.recorded_at < before)).values()];
  const tooMany = old[LEDGERS]?.[0];
  const last = tooMany ? rows[rows.indexOf(tooMany) - 1] : rows.length === ROWS ? rows.at(-1) : undefined;
  return {
    old: old.slice(0, LEDGERS).flatMap(stretchOf),
    next: last ? JSON.stringify([last.tenant_id, last.entity, last.sequence]) : null,
  };
}

function byLedger(rows: readonly Row[]): Map<string, Row[]> {
  return Map.groupBy(rows, ({ tenant_id, entity }) => JSON.stringify([tenant_id, entity]));
}

function stretchOf(rows: readonly Row[]): Stretch[] {
  const [first, last] = [rows[0], rows.at(-1)];
  return first && last ? [{ tenantId: first.tenant_id, entity: first.entity, first: first.sequence, last: last.sequence }] : [];
}

/** Prunes a ledger. Returns the position of the first fact it keeps; facts are pruned from the oldest on. */
async function pruneLedger(ledger: PrunedLedger, before: number): Promise<number> {
  for (let call = 0; call < LEDGER_CALLS; call++) if ((await ledger.prune(before, LEDGER_FACTS)) < LEDGER_FACTS) break;
  return (await ledger.state()).first;
}

/** A ledger that cannot be pruned keeps its rows, is tried again in the next run, and does not delay other tenants. */
function stays(tenant: string, entity: string, first: number, error: unknown): number {
  logLine("error", { log: "retention", rule: "facts", tenant_id: tenant, entity, error: messageOf(error) });
  return first;
}

async function removeRows(db: D1Database, stretches: readonly Stretch[]): Promise<number> {
  if (stretches.length === 0) return 0;
  const gone = await query(
    db,
    sql`
      DELETE FROM facts WHERE (tenant_id, entity, sequence, fact_id) IN (
        SELECT f.tenant_id, f.entity, f.sequence, f.fact_id FROM json_each(${JSON.stringify(stretches)}) s
        CROSS JOIN facts f ON f.tenant_id = s.value->>'tenantId' AND f.entity = s.value->>'entity'
          AND f.sequence BETWEEN s.value->>'first' AND s.value->>'last')
      RETURNING 1 AS gone`,
  );
  return gone.length;
}
