/** Who holds a lock. */
export interface Holder {
  /** Which call of `withLock` it is. */
  id: string;
  /** Who that is, in its own words. */
  who: string;
  token: number;
  /** Milliseconds since 1970. */
  since: number;
  until: number;
  /** True once it stands in the list of locks held for long. */
  isListed?: boolean;
}

/** Who waits for a lock, and until when. */
interface Waiting {
  id: string;
  who: string;
  ttlMs: number;
  until: number;
}

/** What a lock remembers of its turns. Each change keeps whatever stands beside them. */
export interface Turns {
  /** The last token that was given. */
  token: number;
  holder: Holder | null;
  /** In the order in which they came. */
  waiting: readonly Waiting[];
}

/** Whether one who waits is there to be answered, may come back, or is gone. */
export type Presence = "here" | "awaited" | "gone";

export const FREE: Turns = { token: 0, holder: null, waiting: [] };

/** With one more who waits; one who asks again keeps the place. */
export function queued<T extends Turns>(turns: T, asker: Waiting): T {
  if (turns.holder?.id === asker.id || turns.waiting.some(({ id }) => id === asker.id)) return turns;
  return { ...turns, waiting: [...turns.waiting, asker] };
}

/**
 * With the turns that are due by now: a holder whose time is over has lost the lock, who waited long enough or is gone is passed over, and
 * the first of the others holds it. Where that one may come back, nobody does.
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

/** With more time for its holder; null where that one holds it no more. Whose time is over, and nobody took the lock, holds it still. */
export function renewed<T extends Turns>(turns: T, id: string, until: number): T | null {
  if (turns.holder?.id !== id) return null;
  return { ...turns, holder: { ...turns.holder, until } };
}

/** Without one who held it or waited for it. */
export function without<T extends Turns>(turns: T, id: string): T {
  const holder = turns.holder?.id === id ? null : turns.holder;
  const waiting = turns.waiting.filter((one) => one.id !== id);
  return holder === turns.holder && waiting.length === turns.waiting.length ? turns : { ...turns, holder, waiting };
}

/** Tokens are times, or one more than the last: so they grow on after everything about the lock was forgotten. */
function nextToken(last: number, now: number): number {
  return Math.max(last + 1, now);
}
