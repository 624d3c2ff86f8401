import { objectsIn } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { type Operator, operatorOf } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { type LockName, selectLocks, unlistLock } from "../store/locks.ts";
import { type LockEnv, lockObject } from "./client.ts";
import type { LockSeen } from "./lock.ts";

/** What is needed to look at locks: the list of those held for long, and their objects. A deployment without the binding has no locks. */
export type LocksEnv = LockEnv & { DB: D1Database };

/** A lock that is held, as its tenant sees it. */
export interface HeldLock extends LockSeen {
  name: string;
}

/**
 * A tenant's locks that have been held for ten seconds and more, by name: as their objects say, so that one whose holder died stands here
 * no longer than its time. `after`: the last name of the page before.
 */
export async function listLocks(
  env: LocksEnv,
  { tenantId }: Pick<Operator, "tenantId">,
  { after, limit }: { after: string; limit: number },
): Promise<{ items: HeldLock[]; next: string | null }> {
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

/** One lock, however short it has been held. Errors: `lock_not_found` where nobody holds it. */
export async function getLock(env: LocksEnv, { tenantId }: Pick<Operator, "tenantId">, name: string): Promise<HeldLock> {
  const found = await lookAtLock(env, { tenantId, name });
  if (!found) throw new MillraceError("lock_not_found", `Nobody holds a lock "${name}" now. List those held for long with GET /v1/locks.`);
  return found;
}

/**
 * Takes a lock from its holder, on record: who waits is next. The holder hears of it at its next renewal or at its end, and what it writes
 * under its token is refused from the moment on in which the next one has written. `broken` is false where nobody held it, which is
 * audited too.
 */
export async function breakLock(env: LocksEnv, by: Operator, name: string, reason: string): Promise<{ actionId: string; broken: boolean }> {
  const actionId = crypto.randomUUID();
  const lock = { tenantId: by.tenantId, name };
  const action = { id: actionId, verb: "break", target: name, instanceId: null, reason };
  const operator = operatorOf(by);
  return { actionId, broken: await lockObject(env, lock).breakNow(lock, operator, action) };
}

/** Who holds a lock now, by its object; undefined where nobody does. */
export async function lookAtLock(env: LocksEnv, lock: LockName): Promise<HeldLock | undefined> {
  if (!objectsIn(env, "LOCK")) return undefined;
  const seen = await lockObject(env, lock).look();
  return seen ? { name: lock.name, ...seen } : undefined;
}
