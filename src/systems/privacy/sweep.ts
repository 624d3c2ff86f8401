import { query, sql } from "millrace";
import { erasure, type Rewritten, statuses } from "millrace/operate";
import type { CallOptions } from "../../providers/index.ts";
import { brandAgentOf } from "../brand/brand-agents.ts";
import { type Person, Traces } from "../contacts/traces.ts";
import { budgetOf } from "../facts/derived/budgets.ts";
import { contactBookOf } from "../facts/derived/contact-books.ts";
import { secretName } from "../facts/ledger/forgotten-facts.ts";
import { ledgerOf } from "../facts/ledger/ledgers.ts";
import { FOLDERS, rewriteFiles } from "./files.ts";
import { rewriteContacts } from "./others.ts";
import { TEXT_TABLES, withoutPrefix } from "./tables.ts";

/** Numbers of rows by place, such as a table. */
export type Counts = Record<string, number>;

/** The progress of a search. */
export interface Progress {
  /** The index of the current place in the list of places. At the end of the pass this is the list's length. */
  at: number;
  from: string | null;
  /** Numbers of rows that all passes have removed or rewritten, by place. */
  removed: Counts;
  /** Number of rows found in this pass. */
  found: number;
  waiting: number;
  /** The first `NAMED` running instances that this pass has found and whose rows must wait. */
  waitsFor?: string[];
}

export const BEGINNING: Progress = { at: 0, from: null, removed: {}, found: 0, waiting: 0 };

interface Search {
  env: Env;
  tenantId: string;
  person: Person;
  traces: Traces;
  /** False if mentions are only counted. */
  apply: boolean;
  /** The idempotency key and the trace for calls to the CRM. */
  asker: CallOptions;
  /** Number of rows in earlier places of the list that must wait. */
  waiting: number;
  /** Running instances that mention the person. */
  waitsFor: Set<string>;
}

interface Place {
  name: string;
  look: (search: Search, from: string | null) => Promise<Rewritten>;
}

/** Maximum number of running instances that a pass lists. */
const NAMED = 10;

/** Maximum number of objects called in one slice. */
const OBJECTS = 25;

/** All places to search, in order. Ledgers come before the projection, because the projection is built from the ledgers. */
const PLACES: readonly Place[] = [
  { name: "ledgers", look: lookThroughLedgers },
  { name: "contact book", look: lookInBook },
  { name: "budgets", look: lookThroughBudgets },
  { name: "brand agents", look: lookThroughBrands },
  { name: "texts of other contacts", look: rewriteContacts },
  {
    name: "outbox",
    look: async ({ env, tenantId, traces }) => ({
      changed: 0,
      waiting: await erasure.unsentSaying(env, tenantId, traces.mentionsInJson),
      next: null,
    }),
  },
  ...TEXT_TABLES.map((table) => ({
    name: withoutPrefix(table.table),
    look: async (search: Search, from: string | null) => {
      // The projection is not searched while the queue may contain the message of an unchanged fact. That message would create a second row
      // beside the rewritten row.
      if (table.table === "facts" && search.waiting > 0) return { changed: 0, waiting: 0, next: null };
      const { env, tenantId, traces, apply } = search;
      return erasure.rewriteRows(env, { tenantId, table, by: noting(traces, search.waitsFor), from, apply });
    },
  })),
  ...FOLDERS.map((folder) => ({
    name: folder === "batches" ? "batch files" : folder,
    look: (search: Search, from: string | null) => rewriteFiles(search, folder, from),
  })),
];

/** Continues a pass of the search until the end of the pass or the time limit. With `apply: false` the function only counts. */
export async function search(
  env: Env,
  tenantId: string,
  person: Person,
  { progress, apply, forMs, asker }: { progress: Progress; apply: boolean; forMs: number; asker: CallOptions },
): Promise<Progress> {
  const stopAt = Date.now() + forMs;
  const now = { ...progress, removed: { ...progress.removed } };
  const traces = new Traces(person, (name) => secretName(env, tenantId, name));
  const waitsFor = new Set(now.waitsFor);
  for (let place = PLACES[now.at]; place && Date.now() < stopAt; place = PLACES[now.at]) {
    const { changed, waiting, next } = await place.look(
      { env, tenantId, person, traces, apply, asker, waiting: now.waiting, waitsFor },
      now.from,
    );
    if (changed > 0) now.removed[place.name] = (now.removed[place.name] ?? 0) + changed;
    now.found += changed;
    now.waiting += waiting;
    now.from = next;
    if (next === null) now.at++;
  }
  return { ...now, waitsFor: [...waitsFor].slice(0, NAMED) };
}

/** Returns a rewriter that rewrites rows by `traces`, and records the running instances whose rows must be changed later. */
function noting(traces: Traces, waitsFor: Set<string>): Parameters<typeof erasure.rewriteRows>[1]["by"] {
  return {
    mentions: traces.mentions,
    rewrite(column, text, row) {
      const rewritten = traces.rewrite(column, text, row);
      if (rewritten !== text && typeof row.of_instance === "string" && !statuses.over.has(row.of_status)) waitsFor.add(row.of_instance);
      return rewritten;
    },
  };
}

/** True at the start of a pass. */
export function isBeginning({ at, from }: Progress): boolean {
  return at === 0 && from === null;
}

/** True at the end of a pass. */
export function isOver({ at }: Progress): boolean {
  return at >= PLACES.length;
}

async function lookThroughLedgers({ env, tenantId, person, apply }: Search, from: string | null): Promise<Rewritten> {
  const rows = await query<{ entity: string }>(
    env.DB,
    sql`SELECT entity FROM ledgers WHERE tenant_id = ${tenantId} AND entity > ${from ?? ""} ORDER BY entity LIMIT ${OBJECTS}`,
  );
  const entities = rows.map(({ entity }) => entity);
  const found = await Promise.all(entities.map((entity) => ledgerOf(env, tenantId, entity).forget(person, tenantId, apply)));
  return { ...sumOf(found), next: entities.length === OBJECTS ? (entities.at(-1) ?? null) : null };
}

async function lookInBook({ env, tenantId, person, apply }: Search): Promise<Rewritten> {
  const ids = person.ids.map(({ id }) => id);
  return { changed: await contactBookOf(env, tenantId).forget(ids, apply), waiting: 0, next: null };
}

async function lookThroughBudgets({ env, tenantId, person, apply }: Search, from: string | null): Promise<Rewritten> {
  const accounts = await query<{ account: string }>(
    env.DB,
    sql`
      SELECT account FROM (
        SELECT account FROM budget_accounts WHERE tenant_id = ${tenantId}
        UNION SELECT substr(entity, 9) FROM ledgers WHERE tenant_id = ${tenantId} AND entity GLOB 'account/?*')
      WHERE account > ${from ?? ""} ORDER BY account LIMIT ${OBJECTS}`,
  );
  const found = await Promise.all(accounts.map(({ account }) => budgetOf(env, tenantId, account).forget(person, apply)));
  const changed = found.reduce((sum, one) => sum + one, 0);
  return { changed, waiting: 0, next: accounts.length === OBJECTS ? (accounts.at(-1)?.account ?? null) : null };
}

async function lookThroughBrands({ env, tenantId, person, apply }: Search, from: string | null): Promise<Rewritten> {
  const rows = await query<{ brand: string }>(
    env.DB,
    sql`SELECT brand FROM brands WHERE tenant_id = ${tenantId} AND brand > ${from ?? ""} ORDER BY brand LIMIT ${OBJECTS}`,
  );
  const found = await Promise.all(rows.map(({ brand }) => brandAgentOf(env, tenantId, brand).forget(person, apply)));
  return { ...sumOf(found), next: rows.length === OBJECTS ? (rows.at(-1)?.brand ?? null) : null };
}

function sumOf(found: readonly { changed: number; waiting: number }[]): { changed: number; waiting: number } {
  return found.reduce((sum, { changed, waiting }) => ({ changed: sum.changed + changed, waiting: sum.waiting + waiting }), {
    changed: 0,
    waiting: 0,
  });
}
