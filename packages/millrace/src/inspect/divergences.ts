import * as z from "zod";
import type { Asker } from "../access/may-ask.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { timestamp } from "../contract/row.ts";
import { andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import type { Page, PageRequest } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";
import { rowPage } from "../store/d1/rows.ts";
import { MAX_COUNTED } from "../store/health.ts";

const STATES = ["suspected", "mending", "open", "mended", "gone"] as const;

/** A conflict between two records. */
export const DivergenceRow = z
  .object({
    kind: z.string().meta({ description: "The kind of conflict. See docs/reconciliation.md for the meaning and the fix of each kind." }),
    what: z.string().meta({ description: "The id of an instance, message, dead letter or action, or a digest of a named item." }),
    detail: z.string().meta({ description: "The conflicting values of both records." }),
    state: z.enum(STATES).meta({
      description:
        "`suspected`: observed once. `mending`: just repaired. `open`: observed again, and an operator must act. `mended`: repaired. `gone`: no longer observed.",
    }),
    first_seen_at: timestamp,
    last_seen_at: timestamp,
    times: z.int().meta({ description: "How many times checks observed the conflict." }),
    mends: z.int().meta({ description: "How many times the conflict was repaired." }),
    ended_at: timestamp.nullable(),
  })
  .meta({ id: "Divergence" });

export const DivergenceFilter = z.object({ state: z.enum(STATES).default("open"), kind: z.string().min(1).max(100).optional() });

/**
 * Conflicts in one state, newest first. With the scope `observe`, the list contains the conflicts of all tenants; otherwise only the
 * conflicts of the caller's tenant.
 */
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
      return query(
        env.DB,
        sql`
          SELECT kind, what, says AS detail, state, first_at AS first_seen_at, seen_at AS last_seen_at, times, mends, ended_at
          FROM millrace_divergences
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
