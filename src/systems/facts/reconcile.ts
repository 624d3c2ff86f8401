import { digest, query, sql } from "millrace";
import type { Check, Checked, Divergence } from "millrace/worker";
import { type RecordedFact, recordedFactSchema } from "../../messages/fact.ts";
import { ledgerOf } from "./ledger/ledgers.ts";
import { deleteRows, type RowName, restoreRows, straysBehind } from "./rebuild.ts";

/** Maximum number of ledgers in one slice, and of facts read from each ledger at once. */
const LEDGERS = 10;
const PAGE = { rows: 500, bytes: 1024 ** 2 };
/** Recent facts of a ledger may still be in transit to the projection. */
const ON_ITS_WAY_MS = 600_000;

/** A range of one ledger: from a position to the end of a page. */
interface Stretch {
  tenantId: string;
  entity: string;
  after: number;
}

/** Compares ledgers' facts with their rows in the projection, ledger by ledger in the register's order. */
export const factCheck: Check = {
  name: "facts",
  everyHours: 24,
  kinds: {
    fact_without_row: {
      says: "A ledger holds facts that have no row in the projection.",
      mend: (env, found) => restore(env, stretchAt(found.place)),
    },
    row_without_fact: { says: "The projection has rows that no ledger knows.", mend: (env, found) => restore(env, stretchAt(found.place)) },
  },
  async slice(env, from): Promise<Checked> {
    const begin = from === null ? { tenantId: "", entity: "", after: 0 } : stretchAt(from);
    const ledgers = await query<{ tenantId: string; entity: string }>(
      env.DB,
      sql`
        SELECT tenant_id AS "tenantId", entity FROM ledgers WHERE (tenant_id, entity) >= (${begin.tenantId}, ${begin.entity})
        ORDER BY tenant_id, entity LIMIT ${LEDGERS + 1}`,
    );
    const found: Divergence[] = [];
    for (const { tenantId, entity } of ledgers.slice(0, LEDGERS)) {
      const goesOn = tenantId === begin.tenantId && entity === begin.entity;
      const stretch = { tenantId, entity, after: goesOn ? begin.after : 0 };
      const { lacking, strays, next } = await compare(env, stretch);
      found.push(...divergencesOf(stretch, lacking.length, strays.length));
      if (next !== null) return { found, next: placeOf({ ...stretch, after: next }) };
    }
    const last = ledgers[LEDGERS];
    return { found, next: last ? placeOf({ ...last, after: 0 }) : null };
  },
};

const placeOf = ({ tenantId, entity, after }: Stretch): string => JSON.stringify([tenantId, entity, after]);

function stretchAt(place: string): Stretch {
  const [tenantId, entity, after] = JSON.parse(place) as [string, string, number];
  return { tenantId, entity, after };
}

function divergencesOf(stretch: Stretch, lacking: number, strays: number): Divergence[] {
  const about = {
    what: digest("ledger", stretch.tenantId, stretch.entity, String(stretch.after)),
    tenantId: stretch.tenantId,
    place: placeOf(stretch),
  };
  return [
    ...(lacking > 0
      ? [{ ...about, kind: "fact_without_row", detail: `${lacking} facts behind place ${stretch.after} of a ledger have no row.` }]
      : []),
    ...(strays > 0
      ? [{ ...about, kind: "row_without_fact", detail: `${strays} rows behind place ${stretch.after} are of no fact of their ledger.` }]
      : []),
  ];
}

/** Returns a range's missing rows, its rows without a fact, and the next position (null at the end). */
async function compare(env: Env, { tenantId, entity, after }: Stretch) {
  const page = await ledgerOf(env, tenantId, entity).page(after, PAGE);
  const facts = page.facts.map((body) => JSON.parse(body) as RecordedFact);
  const last = page.more ? (facts.at(-1)?.sequence ?? after) : null;
  // Facts before the first kept one are pruned, and retention removes their rows.
  const first = facts[0]?.sequence ?? Math.max(after, page.last) + 1;
  const rows = await query<RowName & Record<string, unknown>>(
    env.DB,
    sql`
      SELECT entity, sequence, fact_id FROM facts
      WHERE tenant_id = ${tenantId} AND entity = ${entity} AND sequence BETWEEN ${first} AND ${last ?? Number.MAX_SAFE_INTEGER}
      ORDER BY sequence LIMIT ${2 * PAGE.rows}`,
  );
  const there = new Set(rows.map(nameOf));
  const known = new Set(facts.map(nameOf));
  const before = Date.now() - ON_ITS_WAY_MS;
  const lacking = facts.filter((fact) => !there.has(nameOf(fact)) && Date.parse(fact.recorded_at) < before && fits(fact));
  const strays = rows.filter((row) => !known.has(nameOf(row)));
  return { facts, lacking, strays, first, last, next: last };
}

const nameOf = ({ sequence, fact_id }: Pick<RowName, "sequence" | "fact_id">) => `${sequence} ${fact_id}`;

/** A fact that no longer matches its type has no row. */
const fits = (fact: RecordedFact) => recordedFactSchema.safeParse(fact).success;

/**
 * Writes a range's facts to the projection, and deletes rows that the ledger, read again, does not have. A rebuild repairs the projection
 * in the same way.
 */
async function restore(env: Env, stretch: Stretch): Promise<void> {
  const { tenantId, entity } = stretch;
  const { facts, first, last } = await compare(env, stretch);
  const spans = [{ entity, facts: facts.filter(fits), first, last }];
  const { strays } = await restoreRows(env.DB, tenantId, spans);
  for (let found = strays; found.length > 0; found = await straysBehind(env.DB, tenantId, spans, found)) {
    const own = await ledgerOf(env, tenantId, entity).namesAt(found.map(({ sequence }) => sequence));
    const known = new Set(own.map(nameOf));
    await deleteRows(
      env.DB,
      tenantId,
      found.filter((row) => !known.has(nameOf(row))),
    );
  }
}
