import { type EngineEnv, objectsIn } from "../../contract/bindings.ts";
import { digest } from "../../contract/ids.ts";
import { now, sql } from "../../contract/sql.ts";
import { turnsObjectOf } from "../../lanes/turns-stub.ts";
import { query } from "../../store/d1/retry.ts";
import { forgetNoted } from "../../store/lanes.ts";
import type { Check, Divergence } from "../check.ts";
import { columnsOf, placeOf } from "../place.ts";
import { engineCheck } from "./engine-check.ts";

/** Maximum number of lanes in one slice of the scan. Each lane needs one call of a Durable Object. */
const ROWS = 50;
/** Minimum age of the rows that are checked, in milliseconds, because a lane writes or removes its row within ten seconds. */
const SETTLED_MS = 60_000;

interface Row {
  tenant_id: string;
  lane: string;
  key: string;
  depth: number;
  state: string;
  noted_at: number;
  settled: number;
}

/** Compares the list of blocked lanes with the lanes' Durable Objects. */
export const lanes: Check = engineCheck({
  name: "lanes",
  everyHours: 1,
  kinds: {
    lane_row_stale: {
      says: "A lane is listed as blocked, but its object is empty.",
      async mend(env, { place }) {
        const [tenantId, lane, key, notedAt] = columnsOf<readonly [string, string, string, number]>(place, ["", "", "", 0]);
        await query(env.DB, forgetNoted({ tenantId, lane, key }, notedAt));
      },
    },
  },
  async slice(env, from) {
    const [tenant, lane, key] = columnsOf<readonly [string, string, string, number]>(from, ["", "", "", 0]);
    const rows = await query<Row>(
      env.DB,
      sql`
        SELECT tenant_id, lane, key, depth, state, noted_at, noted_at <= ${now} - ${SETTLED_MS} AS settled FROM millrace_lanes
        WHERE (tenant_id, lane, key) >= (${tenant}, ${lane}, ${key}) ORDER BY tenant_id, lane, key LIMIT ${ROWS + 1}`,
    );
    const found = await Promise.all(
      rows
        .slice(0, ROWS)
        .filter(({ settled }) => settled === 1)
        .map((row) => compare(env, row)),
    );
    const next = rows[ROWS];
    return { found: found.flat(), next: next ? placeOf(next.tenant_id, next.lane, next.key, next.noted_at) : null };
  },
});

/**
 * Compares a listed lane with its Durable Object. A lane that the deployment does not declare is skipped, because it may belong to the
 * previous deployment.
 */
async function compare(env: EngineEnv, { tenant_id, lane, key, depth, state, noted_at }: Row): Promise<Divergence[]> {
  if (!objectsIn(env, "LANES")) return [];
  const standing = await turnsObjectOf(env, { lane, tenant: tenant_id, key }).stand();
  if (standing?.state !== "empty") return [];
  return [
    {
      kind: "lane_row_stale",
      what: digest("lane", tenant_id, lane, key),
      tenantId: tenant_id,
      place: placeOf(tenant_id, lane, key, noted_at),
      detail: `Listed in ${lane} as ${state} with ${depth} messages; its object is empty.`,
    },
  ];
}
