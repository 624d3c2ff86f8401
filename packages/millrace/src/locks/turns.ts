/** The holder of a lock. */
export interface Holder {
  /** The id of the call of `withLock` or `tryLock`. */
  id: string;
  /** The label that the holder gave to its call. */
  who: string;
  token: number;
  /** When the holder got the lock, in milliseconds since 1970. */
  since: number;
  until: number;
  /** True if the lock is in the list of long-held locks. */
  isListed?: boolean;
}

interface Waiting {
  id: string;
  who: string;
  ttlMs: number;
  until: number;
}

/** The stored state of a lock's turns. Each change preserves all further fields of the object. */
export interface Turns {
  /** The token of the latest holder. */
  token: number;
  holder: Holder | null;
  /** The waiting callers in the order of arrival. */
  waiting: readonly Waiting[];
}

/**
 * `here`: the caller has an open call. `awaited`: the caller may call again after a restart of the object. `gone`: the caller will not call
 * again.
 */
export type Presence = "here" | "awaited" | "gone";

export const FREE: Turns = { token: 0, holder: null, waiting: [] };

/** Appends a waiting caller. A caller that repeats its request keeps its position in the queue. */
export function queued<T extends Turns>(turns: T, asker: Waiting): T {
  if (turns.holder?.id === asker.id || turns.waiting.some(({ id }) => id === asker.id)) return turns;
  return { ...turns, waiting: [...turns.waiting, asker] };
}

/**
 * Applies all due changes. An expired holder loses the lock, expired and absent callers are removed, and the first remaining caller gets
 * the lock. If the first remaining caller has no open call but may call again, the lock remains free.
 */
export function settled<T extends Turns>(turns: T, now: number, presenceOf: (id: string) => Presence): T {
  const holder = turns.holder && turns.holder.until > now ? turns.holder : null;
  const waiting = turns.waiting.filter(({ id, until }) => until > now && (holder !== null || presenceOf(id) !== "gone"));
  const [next, ...others] = waiting;
  if (holder !== null || next === undefined || presenceOf(next.id) !== "here") {
    const isSame = holder === turns.holder && waiting.length === turns.waiting.length;
    return isSame ? turns : { ...turns, holder, waiting };
  }
  const token = nextToken(turns.token, now);
  return { ...turns, token, holder: { id: next.id, who: next.who, token, since: now, until: now + next.ttlMs }, waiting: others };
}

/**
 * Extends the hold of a caller. Returns null if this caller no longer holds the lock. An expired holder keeps the lock if no other caller
 * has acquired the lock.
 */
export function renewed<T extends Turns>(turns: T, id: string, until: number): T | null {
  if (turns.holder?.id !== id) return null;
  return { ...turns, holder: { ...turns.holder, until } };
}

/** Removes a holder or a waiting caller from the lock. */
export function without<T extends Turns>(turns: T, id: string): T {
  const holder = turns.holder?.id === id ? null : turns.holder;
  const waiting = turns.waiting.filter((one) => one.id !== id);
  return holder === turns.holder && waiting.length === turns.waiting.length ? turns : { ...turns, holder, waiting };
}

/** The next fencing token: the present time, or the last token plus one, so that tokens also grow after the lock's state was deleted. */
function nextToken(last: number, now: number): number {
  return Math.max(last + 1, now);
}
