import { ids, query, sql } from "millrace";
import type { Check } from "millrace/worker";
import { type RecordedFact, recordedFactSchema } from "../../messages/fact.ts";
import { ledgerOf } from "./ledger/ledgers.ts";
import { deleteRows, type RowName, restoreRows, straysBehind } from "./rebuild.ts";

type Checked = Awaited<ReturnType<Check["slice"]>>;

/** `LEDGERS` is the maximum number of ledgers in one slice. `PAGE` is the maximum size of a page of facts from one ledger. */
const LEDGERS = 10;
const PAGE = { rows: 500, bytes: 1024 ** 2 };
/** Facts recorded within this time are not compared, because their messages may still be in transit to the projection. */
const ON_ITS_WAY_MS = 600_000;

/** The part of one ledger that begins after a position and ends with a page of facts. */
interface Stretch {
  tenantId: string;
  entity: string;
  after: number;
}

/** Compares the facts of ledgers with the facts' rows in the projection. Ledgers are compared in the order of tenant and name. */
export const factCheck: Check = {
  name: "facts",
  everyHours: 24,
  kinds: {
    fact_without_row: {
      says: "A ledger holds facts that have no row in the projection.",
      fix: (env, found) => restore(env, stretchAt(found.place)),
    },
    row_without_fact: { says: "The projection has rows that no ledger knows.", fix: (env, found) => restore(env, stretchAt(found.place)) },
  },
  async slice(env, from) {
    const begin = from === null ? { tenantId: "", entity: "", after: 0 } : stretchAt(from);
    const ledgers = await query<{ tenantId: string; entity: string }>(
      env.DB,
      sql`
        SELECT tenant_id AS "tenantId", entity FROM ledgers WHERE (tenant_id, entity) >= (${begin.tenantId}, ${begin.entity})
        ORDER BY tenant_id, entity LIMIT ${LEDGERS + 1}`,
    );
    const found: Checked["found"][number][] = [];
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

function divergencesOf(stretch: Stretch, lacking: number, strays: number): Checked["found"] {
  const about = {
    what: ids.digest("ledger", stretch.tenantId, stretch.entity, String(stretch.after)),
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

/**
 * Returns a range's missing rows, the range's rows without a fact, and the position after which the ledger continues (null at the ledger's
 * end).
 */
async function compare(env: Env, { tenantId, entity, after }: Stretch) {
  const page = await ledgerOf(env, tenantId, entity).page(after, PAGE);
  const facts = page.facts.map((body) => JSON.parse(body) as RecordedFact);
  const last = page.more ? (facts.at(-1)?.sequence ?? after) : null;
  // Rows before the first kept fact are not compared, because their facts are pruned and retention removes these rows.
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
 * Writes a range's facts to the projection, and deletes rows without a fact. The ledger is read again before. A rebuild repairs the
 * projection in the same way.
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
