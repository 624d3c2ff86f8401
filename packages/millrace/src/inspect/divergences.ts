import type { Asker } from "../access/may-ask.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { keysetPage, type Page, type PageRequest } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";
import type { DivergenceState } from "../store/divergences.ts";
import { MAX_COUNTED } from "../store/health.ts";

/** A conflict between two records. */
export interface DivergenceRow {
  kind: string;
  /** The id of the affected object, or a digest of its name. */
  what: string;
  detail: string;
  state: DivergenceState;
  firstAt: number;
  seenAt: number;
  times: number;
  mends: number;
  endedAt: number | null;
}

export interface DivergenceFilter extends PageRequest {
  /** Default `open`. */
  state?: DivergenceState | undefined;
  kind?: string | undefined;
}

/** Conflicts in one state, newest first: of all tenants with the scope `observe`, otherwise of the tenant. */
export function listDivergences(
  env: EngineEnv,
  by: Asker,
  { state = "open", kind, ...request }: DivergenceFilter,
): Promise<Page<DivergenceRow>> {
  return keysetPage(
    request,
    ({ firstAt, what, kind: one }) => ({ at: firstAt, id: what + BESIDE + one }),
    (before, limit) => {
      const [what, one] = partsOf(before.id);
      return query<DivergenceRow & Record<string, unknown>>(
        env.DB,
        sql`
          SELECT kind, what, says AS detail, state, first_at AS "firstAt", seen_at AS "seenAt", times, mends,
            ended_at AS "endedAt" FROM millrace_divergences
          WHERE ${visibleTo(by)} AND state = ${state} ${andEquals(fragment("kind"), kind)}
            AND (first_at, what, kind) < (${before.at}, ${what}, ${one})
          ORDER BY first_at DESC, what DESC, kind DESC LIMIT ${limit}`,
      );
    },
  );
}

const BESIDE = "--";

function partsOf(id: string): [what: string, kind: string] {
  const end = id.lastIndexOf(BESIDE);
  return end < 0 ? [id, ""] : [id.slice(0, end), id.slice(end + BESIDE.length)];
}

export async function countDivergences(env: EngineEnv, by: Asker): Promise<Readonly<Record<string, number>>> {
  const counts = await query<{ kind: string; count: number }>(
    env.DB,
    sql`
      SELECT kind, count(*) AS count FROM (SELECT kind FROM millrace_divergences
        WHERE ${visibleTo(by)} AND state = 'open' LIMIT ${MAX_COUNTED})
      GROUP BY kind ORDER BY kind`,
  );
  return Object.fromEntries(counts.map(({ kind, count }) => [kind, count]));
}

function visibleTo({ tenantId, scopes }: Asker): Statement {
  return scopes.includes("observe") ? sql`true` : sql`tenant_id = ${tenantId}`;
}
