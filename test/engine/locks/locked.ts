import { runInDurableObject } from "cloudflare:test";
import { tryLock, withLock } from "millrace/locks";
import { type LockEnv, type LockOptions, lockObject } from "../../../packages/millrace/src/locks/client.ts";
import { fresh, probeEnv } from "../harness.ts";

export const env = probeEnv as unknown as Required<LockEnv> & { DB: D1Database };

export function lock(options: LockOptions = {}) {
  const name = fresh("lock");
  const tenantId = options.tenantId ?? "";
  const object = lockObject(env, { tenantId, name });
  return {
    name,
    stub: env.LOCK.getByName(`${tenantId}/${name}`),
    /** Kills the lock's object, with all running calls. */
    die: () => runInDurableObject(env.LOCK.getByName(`${tenantId}/${name}`), (_, state) => state.abort("It died.")).catch(() => {}),
    object,
    /** Acquires the lock as a process that dies: the lock is neither renewed nor released. */
    takeAndDie: async (ttlMs: number, waitMs = 0) => {
      const id = crypto.randomUUID();
      const turn = await object.acquire({ id, who: "dead", ttlMs, waitMs, tenantId, name });
      return { id, ...turn };
    },
    under: <T>(run: Parameters<typeof withLock<T>>[3], more: LockOptions = {}) => withLock(env, name, { ...options, ...more }, run),
    attempt: <T>(run: Parameters<typeof withLock<T>>[3], more: LockOptions = {}) => tryLock(env, name, { ...options, ...more }, run),
  };
}
