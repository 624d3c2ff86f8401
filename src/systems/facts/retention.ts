import { errors, logLine, query, sql } from "millrace";
import type { Retention } from "millrace/worker";

interface PrunedLedger {
  prune(recordedBefore: number, limit: number): Promise<number>;
  state(): Promise<{ first: number }>;
}

/** How long a ledger keeps a fact, and may send it again. */
export const FACT_DAYS = 400;
/** In one slice, at most `ROWS` rows are read and at most `LEDGERS` ledgers are called. */
const ROWS = 1000;
const LEDGERS = 25;
/**
 * A ledger prunes at most `LEDGER_FACTS` facts in one call, and gets at most `LEDGER_CALLS` calls in one slice. More old facts are pruned
 * in the next slice.
 */
const LEDGER_FACTS = 1000;
const LEDGER_CALLS = 20;

interface Row {
  tenant_id: string;
  entity: string;
  sequence: number;
  recorded_at: number;
}

/**
 * Old facts are first removed from their ledger, which keeps the facts' names, and then from the projection. Because of this order, the
 * next run after an interruption finds the rows again, and a rebuilt projection contains only facts that the ledger keeps. In the reverse
 * order, facts could remain in the ledger without rows. Retention would never find such facts, and a rebuild would restore their rows.
 * Unconfirmed facts and their rows remain.
 *
 * The rule reads the whole projection, so that each row is read about sixty times before its deletion. An index by time would be more
 * expensive, because each row would need another write.
 */
export function factRetention(ledgerOf: (env: Env, tenantId: string, entity: string) => PrunedLedger): Retention {
  return {
    name: "facts",
    keepDays: FACT_DAYS,
    everyHours: 24 * 7,
    async prune(env: Cloudflare.Env, keepMs: number, from: string | null) {
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
 * Returns the old rows among the next rows in the order of keys, and the start of the next slice. The next slice starts with the first
 * ledger that does not fit into this slice.
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

/** Prunes a ledger, beginning with the oldest fact. Returns the position of the first fact that the ledger keeps. */
async function pruneLedger(ledger: PrunedLedger, before: number): Promise<number> {
  for (let call = 0; call < LEDGER_CALLS; call++) if ((await ledger.prune(before, LEDGER_FACTS)) < LEDGER_FACTS) break;
  return (await ledger.state()).first;
}

/**
 * Logs that a ledger could not be pruned. The ledger's rows remain, and the next run tries again, so that this ledger does not delay other
 * tenants.
 */
function stays(tenant: string, entity: string, first: number, error: unknown): number {
  logLine("error", { log: "retention", rule: "facts", tenant_id: tenant, entity, error: errors.messageOf(error) });
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
