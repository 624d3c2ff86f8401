import * as z from "zod";
import type { Asker } from "../access/may-ask.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { readCells } from "../contract/cells.ts";
import { component, timestamp } from "../contract/row.ts";
import { andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { rowPage } from "../store/d1/named.ts";
import type { Page, PageRequest } from "../store/d1/paging.ts";
import { query, type Row } from "../store/d1/retry.ts";
import { MAX_COUNTED } from "../store/health.ts";

const STATES = ["suspected", "repairing", "open", "repaired", "gone"] as const;

export const DivergenceRow = component("Divergence", {
  kind: z.string().describe("The kind of conflict. See docs/reconciliation.md for the meaning and the fix of each kind."),
  what: z.string().describe("The id of an instance, message, dead letter or action, or a digest of a named item."),
  detail: z.string().describe("The conflicting values of both records."),
  state: z
    .enum(STATES)
    .describe(
      "`suspected`: observed once. `repairing`: just repaired. `open`: observed again, and an operator must act. `repaired`: repaired. `gone`: no longer observed.",
    ),
  first_seen_at: timestamp,
  last_seen_at: timestamp,
  times: z.int().describe("How many times checks observed the conflict."),
  repairs: z.int().describe("How many times the conflict was repaired."),
  ended_at: timestamp.nullable(),
});

export const DivergenceFilter = z.object({ state: z.enum(STATES).default("open"), kind: z.string().min(1).max(100).optional() });

/** Newest first: of all tenants with the scope `observe`, otherwise of the caller's tenant. */
export function listDivergences(
  env: EngineEnv,
  by: Asker,
  { state = "open", kind, ...request }: z.input<typeof DivergenceFilter> & PageRequest,
): Promise<Page<z.infer<typeof DivergenceRow>>> {
  return rowPage(
    DivergenceRow,
    request,
    (row) => ({ at: Number(row.first_seen_at), id: row.what + BESIDE + row.kind }),
    (before, limit) => {
      const [what, one] = partsOf(before.id);
      return ofCells(
        env,
        by,
        sql`
          SELECT kind, what, says AS detail, state, first_at AS first_seen_at, seen_at AS last_seen_at, times, repairs, ended_at
          FROM millrace_divergences
          WHERE ${visibleTo(by)} AND state = ${state} ${andEquals(fragment("kind"), kind)}
            AND (first_at, what, kind) < (${before.at}, ${what}, ${one})
          ORDER BY first_at DESC, what DESC, kind DESC LIMIT ${limit}`,
      ).then(({ rows }) => rows.toSorted(newestFirst).slice(0, limit));
    },
  );
}

/** The rows of all cells for the scope `observe`, with the cells that did not answer; otherwise the rows of the caller's cell. */
async function ofCells<T extends object = Row>(env: EngineEnv, { scopes }: Asker, statement: Statement) {
  const read = ({ DB }: EngineEnv) => query<T>(DB, statement);
  if (!scopes.includes("observe")) return { rows: await read(env), failed: [] };
  const { found, failed } = await readCells(env, read);
  return { rows: found.flat(), failed };
}

function newestFirst(one: Row, other: Row): number {
  const nameOf = ({ what, kind }: Row) => `${what}\0${kind}`;
  return Number(other.first_seen_at) - Number(one.first_seen_at) || (nameOf(one) > nameOf(other) ? -1 : 1);
}

const BESIDE = "--";

function partsOf(id: string): [what: string, kind: string] {
  const end = id.lastIndexOf(BESIDE);
  return end < 0 ? [id, ""] : [id.slice(0, end), id.slice(end + BESIDE.length)];
}

/** The number of open divergences of each kind, and the cells that did not answer. */
export async function countDivergences(env: EngineEnv, by: Asker) {
  const { rows: counts, failed } = await ofCells<{ kind: string; count: number }>(
    env,
    by,
    sql`
      SELECT kind, count(*) AS count FROM (SELECT kind FROM millrace_divergences
        WHERE ${visibleTo(by)} AND state = 'open' LIMIT ${MAX_COUNTED})
      GROUP BY kind ORDER BY kind`,
  );
  const open: Record<string, number> = {};
  for (const { kind, count } of counts) open[kind] = (open[kind] ?? 0) + count;
  return { open, failed };
}

function visibleTo({ tenantId, scopes }: Asker): Statement {
  return scopes.includes("observe") ? sql`true` : sql`tenant_id = ${tenantId}`;
}
