import { DurableObject } from "cloudflare:workers";
import type { Statement } from "../contract/sql.ts";
import { type Action, auditDone, type Operator } from "../store/actions.ts";
import { cellOf } from "../store/cells.ts";
import { query } from "../store/d1/retry.ts";
import { type LockName, listLock, unlistLock } from "../store/locks.ts";

/** A request for a lock. */
export interface Wanted extends LockName {
  id: string;
  who: string;
  ttlMs: number;
  waitMs: number;
}

/** The result of a request for a lock. Either the caller got the lock (`token`), or a different caller still holds the lock. */
export type Turn = { token: number } | { token: null; heldBy: string; sinceMs: number; leftMs: number; before: number };

/** A held lock, with the number of callers that wait for the lock. */
export interface LockSeen extends Pick<Holder, "token" | "since" | "until"> {
  holder: string;
  waiting: number;
}

/** A break of a lock by an operator whose audit entry is not written yet. */
interface Owed {
  by: Operator;
  action: Action;
  isBroken: boolean;
}

interface State extends Turns {
  lock?: LockName;
  owed?: readonly Owed[];
  /** The id of the last released hold. The id is needed because a caller repeats its release if the response was lost. */
  released?: string;
  /** When the alarm next runs. The alarm deletes the lock's state if the lock is unused. */
  alarmAt?: number;
  usedAt?: number;
}

/** The minimum hold time in milliseconds of the locks in the list of locks. */
const LISTED_AFTER_MS = 10_000;
/**
 * Time in milliseconds after the object's start in which callers that waited before an eviction can return to their positions in the queue.
 */
const COME_BACK_MS = 2_000;
/**
 * Time in milliseconds after which the state of an unused lock is deleted. Afterwards fencing tokens start at the present time. Tokens
 * cannot repeat, because no clock is behind by this much time.
 */
const FORGET_MS = 86_400_000;
const OWED_PAUSE_MS = 10_000;
const ONE_LOOK_MS = 1_000;

/** One lock with its holder and its queue. Each change of the lock is on disk before the caller gets the response. */
export class Lock extends DurableObject<{ DB?: D1Database }> {
  /** The waiting callers with an open call, each with the function that notifies the caller. */
  readonly #here = new Map<string, () => void>();
  readonly #awakeAt = Date.now();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /**
   * Waits for at most `waitMs` until the caller holds the lock. A repeated call with the same id keeps its position in the queue and gets
   * the same result.
   */
  async acquire({ id, who, ttlMs, waitMs, tenantId, name }: Wanted): Promise<Turn> {
    // A caller with a wait of 0 waits only for this check.
    const asker = { id, who, ttlMs, until: Date.now() + Math.max(waitMs, ONE_LOOK_MS) };
    const { promise: turn, resolve: tell } = Promise.withResolvers<void>();
    this.#here.set(id, tell);
    this.#change((now) =>
      settled({ ...queued(this.#state(), asker), lock: { tenantId, name }, alarmAt: this.#forgetAt(now) }, now, this.#presence),
    );
    let timer: ReturnType<typeof setTimeout> | undefined;
    if (this.#state().holder?.id !== id && waitMs > 0) {
      await Promise.race([turn, new Promise<void>((resolve) => (timer = setTimeout(resolve, waitMs)))]);
      clearTimeout(timer);
    }
    const { holder, waiting } = this.#state();
    const before = waiting.findIndex((one) => one.id === id);
    // If the caller has reconnected, only the caller's later call is valid.
    const isCurrent = this.#here.get(id) === tell;
    if (isCurrent) this.#here.delete(id);
    if (holder?.id === id) return { token: holder.token };
    if (isCurrent) this.#change((now) => settled(without(this.#state(), id), now, this.#presence));
    const now = Date.now();
    return {
      token: null,
      heldBy: holder?.who ?? "",
      sinceMs: holder ? now - holder.since : 0,
      leftMs: holder ? Math.max(0, holder.until - now) : 0,
      before: Math.max(0, before),
    };
  }

  /** Extends the hold. Returns true if the caller still holds the lock. */
  renew(id: string, ttlMs: number): boolean {
    const now = Date.now();
    const next = renewed(this.#state(), id, now + ttlMs);
    if (next?.holder == null) return false;
    const { holder } = next;
    const lists = !holder.isListed && now - holder.since >= LISTED_AFTER_MS;
    this.#keep({ ...next, holder: { ...holder, isListed: holder.isListed || lists } });
    if (lists) this.#tell((lock) => listLock(lock, holder.token));
    return true;
  }

  /** Ends a caller's hold or wait. Returns true if the caller held the lock until this call. A repeated call returns the same value. */
  release(id: string): boolean {
    const { holder, waiting, released } = this.#state();
    const wasHeld = holder?.id === id;
    // A call without an effect writes nothing, because an erased lock must not be written again.
    if (!wasHeld && !waiting.some((one) => one.id === id)) return released === id;
    this.#change((now) => settled({ ...without(this.#state(), id), ...(wasHeld && { released: id }) }, now, this.#presence));
    return wasHeld;
  }

  /** The current holder; null if the lock is free. */
  look(): LockSeen | null {
    this.#change((now) => settled(this.#state(), now, this.#presence));
    const { holder, waiting } = this.#state();
    if (!holder) return null;
    const { who, token, since, until } = holder;
    return { holder: who, token, since, until, waiting: waiting.length };
  }

  /**
   * Takes the lock from its holder on an operator's request. The same write stores the pending audit entry. Returns true if the lock was
   * held.
   */
  async breakNow(lock: LockName, by: Operator, action: Action): Promise<boolean> {
    this.#change((now) => settled(this.#state(), now, this.#presence));
    const { holder } = this.#state();
    const seen = holder ? { who: holder.who, token: holder.token } : {};
    const owed = { by, action: { ...action, detail: seen, before: seen, after: { who: null } }, isBroken: holder !== null };
    this.#change((now) => {
      const state = this.#state();
      const left = holder ? without(state, holder.id) : state;
      return { ...settled(left, now, this.#presence), lock, owed: [...(state.owed ?? []), owed] };
    });
    await this.ctx.storage.setAlarm(Date.now() + OWED_PAUSE_MS);
    await this.#payAudit().catch(() => {});
    return holder !== null;
  }

  /** Deletes the lock's state. The holder loses the lock, and waiting callers are notified. The deletion of a tenant uses this call. */
  async erase(): Promise<void> {
    const erased = [this.ctx.storage.deleteAlarm(), this.ctx.storage.deleteAll()];
    for (const tell of this.#here.values()) tell();
    await Promise.all(erased);
  }

  override async alarm(): Promise<void> {
    await this.#payAudit().catch(() => {});
    const state = this.#state();
    const now = Date.now();
    if (state.owed?.length) return this.ctx.storage.setAlarm(now + OWED_PAUSE_MS);
    const isIdle = (state.holder?.until ?? 0) <= now && now - (state.usedAt ?? 0) >= FORGET_MS;
    if (isIdle) return this.ctx.storage.deleteAll();
    const alarmAt = now + FORGET_MS;
    await this.ctx.storage.setAlarm(alarmAt);
    this.#keep({ ...state, alarmAt });
  }

  async #payAudit(): Promise<void> {
    const { owed = [] } = this.#state();
    for (const { by, action, isBroken } of owed) {
      const { DB } = await cellOf(this.env, by.tenantId);
      if (DB) await query(DB, auditDone(by, action, isBroken ? "applied" : "no_change"));
      const left = this.#state();
      this.#keep({ ...left, owed: (left.owed ?? []).filter((one) => one.action.id !== action.id) });
    }
  }

  /**
   * Returns when the alarm next runs, and sets the alarm if no alarm is set. At most one alarm per day is set, even for a lock that is
   * often acquired.
   */
  #forgetAt(now: number): number {
    const { alarmAt = 0 } = this.#state();
    if (alarmAt > now) return alarmAt;
    void this.ctx.storage.setAlarm(now + FORGET_MS);
    return now + FORGET_MS;
  }

  /** Applies a change, notifies a caller that now holds the lock, and schedules a check for the end of the ttl. */
  #change(step: (now: number) => State): void {
    const before = this.#state();
    const now = Date.now();
    const after = step(now);
    if (after !== before) this.#keep({ ...after, usedAt: now });
    const { holder } = after;
    if (before.holder?.isListed && before.holder.token !== holder?.token) {
      const { token } = before.holder;
      this.#tell((lock) => unlistLock(lock, token));
    }
    if (holder) this.#here.get(holder.id)?.();
    clearTimeout(this.#timer);
    if (this.#here.size === 0 || after.waiting.length === 0) return;
    const lookAt = holder?.until ?? this.#awakeAt + COME_BACK_MS;
    this.#timer = setTimeout(() => this.#change((time) => settled(this.#state(), time, this.#presence)), Math.max(1, lookAt - now));
  }

  readonly #presence = (id: string): Presence =>
    this.#here.has(id) ? "here" : Date.now() < this.#awakeAt + COME_BACK_MS ? "awaited" : "gone";

  /** Updates the list of locks in the background. The list is only for display. */
  #tell(statement: (lock: LockName) => Statement): void {
    const { lock } = this.#state();
    if (!lock || !this.env.DB) return;
    const telling = cellOf(this.env, lock.tenantId).then(({ DB }) => DB && query(DB, statement(lock)));
    this.ctx.waitUntil(telling.catch(() => {}));
  }

  #state(): State {
    return this.ctx.storage.kv.get<State>("state") ?? FREE;
  }

  #keep(state: State): void {
    this.ctx.storage.kv.put("state", state);
  }
}

/** The holder of a lock. */
interface Holder {
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
