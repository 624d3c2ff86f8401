import * as z from "zod";
import { objectsIn } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { rowOf, timestamp } from "../contract/row.ts";
import { type Operator, operatorOf } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { type LockName, selectLocks, unlistLock } from "../store/locks.ts";
import { type LockEnv, lockObject } from "./client.ts";

/** The bindings for reading locks: the list of long-held locks, and their objects. A Worker without the LOCK binding sees no locks. */
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
 * A tenant's locks that are held for 10 s or more, by name. The state comes from the locks' Durable Objects, so a lock whose holder died is
 * listed no longer than its ttl. `after`: the last name of the previous page.
 */
export async function listLocks(
  env: LocksEnv,
  { tenantId }: Pick<Operator, "tenantId">,
  { after, limit }: { after: string; limit: number },
): Promise<{ items: HeldLock[]; next: string | null }> {
  // Another Worker with the same database may hold the listed locks.
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

/** A held lock, also if it is held for less than 10 s. Errors: `lock_not_found` if the lock is free. */
export async function getLock(env: LocksEnv, { tenantId }: Pick<Operator, "tenantId">, name: string): Promise<HeldLock> {
  const found = await lookAtLock(env, { tenantId, name });
  if (!found)
    throw new MillraceError("lock_not_found", `The lock "${name}" is not held. GET /v1/locks lists the locks held for 10 s or more.`);
  return found;
}

/**
 * Takes a lock from its holder, with an audit entry; the next waiting caller gets the lock. The holder detects the loss at its next renewal
 * or at its end. The holder's writes with the old token are refused after the next holder's first write. `broken` is false if the lock was
 * free, and the audit records that too.
 */
export async function breakLock(env: LocksEnv, by: Operator, name: string, reason: string): Promise<{ actionId: string; broken: boolean }> {
  const actionId = crypto.randomUUID();
  const lock = { tenantId: by.tenantId, name };
  const action = { id: actionId, verb: "break", target: name, instanceId: null, reason };
  const operator = operatorOf(by);
  return { actionId, broken: await lockObject(env, lock).breakNow(lock, operator, action) };
}

/** The current holder of a lock, read from the lock's Durable Object; undefined for a free lock. */
export async function lookAtLock(env: LocksEnv, lock: LockName): Promise<HeldLock | undefined> {
  if (!objectsIn(env, "LOCK")) return undefined;
  const seen = await lockObject(env, lock).look();
  if (!seen) return undefined;
  return rowOf(HeldLock, { name: lock.name, age_seconds: Math.max(0, Math.floor((Date.now() - seen.since) / 1000)), ...seen });
}
