import { objectsIn } from "../../contract/bindings.ts";
import { digest } from "../../contract/ids.ts";
import { now, sql } from "../../contract/sql.ts";
import { turnsObjectOf } from "../../lanes/turns-stub.ts";
import { type LocksEnv, lookAtLock } from "../../locks/seen.ts";
import { query } from "../../store/d1/retry.ts";
import { forgetNoted } from "../../store/lanes.ts";
import { unlistLock } from "../../store/locks.ts";
import { scan } from "../scan.ts";

/** Maximum number of rows in one slice of the scans. Each row needs one call of a Durable Object. */
const ROWS = 50;
/** Minimum age of the rows of lanes that are checked, in milliseconds, because a lane writes or removes its row within ten seconds. */
const SETTLED_MS = 60_000;

interface LaneRow {
  tenant_id: string;
  lane: string;
  key: string;
  depth: number;
  state: string;
  recorded_at: number;
  settled: number;
}

/**
 * Compares the list of blocked lanes with the lanes' Durable Objects. A lane that the deployment does not declare is skipped, because it
 * may belong to the previous deployment.
 */
export const lanes = scan<LaneRow, readonly [string, string, string, number]>({
  name: "lanes",
  everyHours: 1,
  kinds: {
    lane_row_stale: {
      says: "A lane is listed as blocked, but its object is empty.",
      async fix(env, { place }) {
        const [tenantId, lane, key, notedAt] = JSON.parse(place);
        await query(env.DB, forgetNoted({ tenantId, lane, key }, notedAt));
      },
    },
  },
  rows: ROWS,
  start: ["", "", "", 0],
  select: ([tenant, lane, key], limit) => sql`
    SELECT tenant_id, lane, key, depth, state, recorded_at, recorded_at <= ${now} - ${SETTLED_MS} AS settled FROM millrace_lanes
    WHERE (tenant_id, lane, key) >= (${tenant}, ${lane}, ${key}) ORDER BY tenant_id, lane, key LIMIT ${limit}`,
  place: ({ tenant_id, lane, key, recorded_at }) => [tenant_id, lane, key, recorded_at],
  find: async ({ tenant_id, lane, key, depth, state, settled }, env) => {
    if (settled !== 1 || !objectsIn(env, "LANES")) return [];
    const standing = await turnsObjectOf(env, { lane, tenant: tenant_id, key }).stand();
    if (standing?.state !== "empty") return [];
    const detail = `Listed in ${lane} as ${state} with ${depth} messages; its object is empty.`;
    return [{ kind: "lane_row_stale", what: digest("lane", tenant_id, lane, key), detail }];
  },
});

interface LockRow {
  tenant_id: string;
  name: string;
  token: number;
}

/**
 * Compares the list of long-held locks with the locks' Durable Objects. Without a LOCK binding, locks are skipped, because the locks may
 * belong to another Worker with the same database.
 */
export const locks = scan<LockRow, readonly [string, string, number]>({
  name: "locks",
  everyHours: 1,
  kinds: {
    lock_without_holder: {
      says: "A lock is listed as held, but its object has no holder with that token.",
      async fix(env, { place }) {
        const [tenantId, name, token] = JSON.parse(place);
        await query(env.DB, unlistLock({ tenantId, name }, token));
      },
    },
  },
  rows: ROWS,
  start: ["", "", 0],
  select: ([tenant, name], limit) => sql`
    SELECT tenant_id, name, token FROM millrace_locks WHERE (tenant_id, name) >= (${tenant}, ${name})
    ORDER BY tenant_id, name LIMIT ${limit}`,
  place: ({ tenant_id, name, token }) => [tenant_id, name, token],
  find: async ({ tenant_id, name, token }, env) => {
    if (!objectsIn(env, "LOCK")) return [];
    const held = await lookAtLock(env as LocksEnv, { tenantId: tenant_id, name });
    if (held?.token === token) return [];
    const about = { what: digest("lock", tenant_id, name), tenantId: tenant_id === "" ? null : tenant_id };
    return [{ ...about, kind: "lock_without_holder", detail: `Listed under the token ${token}; held under ${held?.token ?? "none"}.` }];
  },
});
