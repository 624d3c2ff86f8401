import { objectsIn } from "../../contract/bindings.ts";
import { digest } from "../../contract/ids.ts";
import { sql } from "../../contract/sql.ts";
import { type LocksEnv, lookAtLock } from "../../locks/seen.ts";
import { query } from "../../store/d1/retry.ts";
import { unlistLock } from "../../store/locks.ts";
import type { Check, Divergence } from "../check.ts";
import { columnsOf, placeOf } from "../place.ts";
import { engineCheck } from "./engine-check.ts";

/** Maximum number of locks in one slice of the scan. Each lock needs one call of a Durable Object. */
const ROWS = 50;

interface Row {
  tenant_id: string;
  name: string;
  token: number;
}

/** Compares the list of long-held locks with the locks' Durable Objects. */
export const locks: Check = engineCheck({
  name: "locks",
  everyHours: 1,
  kinds: {
    lock_without_holder: {
      says: "A lock is listed as held, but its object has no holder with that token.",
      async mend(env, { place }) {
        const [tenantId, name, token] = columnsOf<readonly [string, string, number]>(place, ["", "", 0]);
        await query(env.DB, unlistLock({ tenantId, name }, token));
      },
    },
  },
  async slice(env, from) {
    const [tenant, name] = columnsOf<readonly [string, string, number]>(from, ["", "", 0]);
    const rows = await query<Row>(
      env.DB,
      sql`
        SELECT tenant_id, name, token FROM millrace_locks WHERE (tenant_id, name) >= (${tenant}, ${name})
        ORDER BY tenant_id, name LIMIT ${ROWS + 1}`,
    );
    const found = await Promise.all(rows.slice(0, ROWS).map((row) => compare(env as LocksEnv, row)));
    const next = rows[ROWS];
    return { found: found.flat(), next: next ? placeOf(next.tenant_id, next.name, next.token) : null };
  },
});

/**
 * Compares a listed lock with its Durable Object. Without a LOCK binding, locks are skipped, because the locks may belong to another Worker
 * with the same database.
 */
async function compare(env: LocksEnv, { tenant_id, name, token }: Row): Promise<Divergence[]> {
  if (!objectsIn(env, "LOCK")) return [];
  const held = await lookAtLock(env, { tenantId: tenant_id, name });
  if (held?.token === token) return [];
  const detail = `Listed under the token ${token}; held under ${held?.token ?? "none"}.`;
  const about = { what: digest("lock", tenant_id, name), tenantId: tenant_id === "" ? null : tenant_id };
  return [{ ...about, kind: "lock_without_holder", place: placeOf(tenant_id, name, token), detail }];
}
