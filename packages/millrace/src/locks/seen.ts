import * as z from "zod";
import { objectsIn } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { rowOf, timestamp } from "../contract/row.ts";
import { type Operator, operatorOf } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { type LockName, selectLocks, unlistLock } from "../store/locks.ts";
import { type LockEnv, lockObject } from "./client.ts";

/**
 * The bindings for reading locks: the database with the list of long-held locks, and the Durable Objects of locks. Without the LOCK
 * binding, the result contains no locks.
 */
export type LocksEnv = LockEnv & { DB: D1Database };

export const HeldLock = z
  .object({
    name: z.string(),
    holder: z.string().meta({ description: "The label that the holder gave itself; may be empty." }),
    token: z.int().meta({ description: "The fencing token." }),
    since: timestamp,
    age_seconds: z.int(),
    until: timestamp.meta({ description: "When the lock expires if the holder does not renew it." }),
    waiting: z.int().meta({ description: "The number of waiting callers." }),
  })
  .meta({ id: "Lock" });
export type HeldLock = z.infer<typeof HeldLock>;

/**
 * A tenant's locks that have been held for at least 10 s, in the order of their names. The states come from the locks' Durable Objects.
 * Therefore, after the death of a holder, the lock is listed only until the end of its ttl. `after` is the last name on the previous page.
 */
export async function listLocks(
  env: LocksEnv,
  { tenantId }: Pick<Operator, "tenantId">,
  { after, limit }: { after: string; limit: number },
): Promise<{ items: HeldLock[]; next: string | null }> {
  // The listed locks may belong to a different Worker with the same database.
  if (!objectsIn(env, "LOCK")) return { items: [], next: null };
  const rows = await query<{ name: string; token: number }>(env.DB, selectLocks(tenantId, after, limit + 1));
  const page = rows.slice(0, limit);
  const seen = await Promise.all(
    page.map(async ({ name, token }) => {
      const found = await lookAtLock(env, { tenantId, name });
      if (!found) await query(env.DB, unlistLock({ tenantId, name }, token));
      return found ?? [];
    }),
  );
  return { items: seen.flat(), next: rows.length > limit ? (page.at(-1)?.name ?? null) : null };
}

/** Reads a held lock, even if the lock has been held for less than 10 s. Errors: `lock_not_found` if the lock is free. */
export async function getLock(env: LocksEnv, { tenantId }: Pick<Operator, "tenantId">, name: string): Promise<HeldLock> {
  const found = await lookAtLock(env, { tenantId, name });
  if (!found)
    throw new MillraceError("lock_not_found", `The lock "${name}" is not held. GET /v1/locks lists the locks held for 10 s or more.`);
  return found;
}

/**
 * Takes a lock from its holder, and writes an audit entry. The next waiting caller gets the lock. The previous holder detects the loss at
 * its next renewal, or at its release of the lock. The previous holder's writes with the old token are refused after the first write of the
 * next holder. `broken` is false if the lock was free. The audit also records the action in this case.
 */
export async function breakLock(
  env: LocksEnv,
  by: Operator,
  name: string,
  reason: string,
): Promise<{ action_id: string; broken: boolean }> {
  const actionId = crypto.randomUUID();
  const lock = { tenantId: by.tenantId, name };
  const action = { id: actionId, verb: "break", target: name, instanceId: null, reason };
  const operator = operatorOf(by);
  return { action_id: actionId, broken: await lockObject(env, lock).breakNow(lock, operator, action) };
}

/** The current holder of a lock, read from the lock's Durable Object; undefined for a free lock. */
export async function lookAtLock(env: LocksEnv, lock: LockName): Promise<HeldLock | undefined> {
  if (!objectsIn(env, "LOCK")) return undefined;
  const seen = await lockObject(env, lock).look();
  if (!seen) return undefined;
  return rowOf(HeldLock, { name: lock.name, age_seconds: Math.max(0, Math.floor((Date.now() - seen.since) / 1000)), ...seen });
}
