import { DurableObject } from "cloudflare:workers";
import type { Statement } from "../contract/sql.ts";
import { type Action, auditDone, type Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { type LockName, listLock, unlistLock } from "../store/locks.ts";
import { FREE, type Holder, type Presence, queued, renewed, settled, type Turns, without } from "./turns.ts";

/** One who wants a lock. */
export interface Wanted extends LockName {
  id: string;
  who: string;
  ttlMs: number;
  waitMs: number;
}

/** The lock is yours, or it is still somebody else's. */
export type Turn = { token: number } | { token: null; heldBy: string; sinceMs: number; leftMs: number; before: number };

/** A lock as people see it. */
export interface LockSeen extends Omit<Holder, "id" | "isListed"> {
  waiting: number;
}

/** A break of a lock that the audit has not heard of yet. */
interface Owed {
  by: Operator;
  action: Action;
  isBroken: boolean;
}

interface State extends Turns {
  lock?: LockName;
  owed?: readonly Owed[];
  /** The last hold that its holder ended: whether it did is asked again where the answer was lost. */
  released?: string;
  /** When the alarm rings that forgets the lock, or looks again whether it can. */
  alarmAt?: number;
  usedAt?: number;
}

/** What is held for longer is listed, in milliseconds. */
const LISTED_AFTER_MS = 10_000;
/** How long those who waited at an eviction have to come back to their places, in milliseconds. */
const COME_BACK_MS = 2_000;
/** A lock that nobody used for so long is forgotten; by then no clock is so far behind that its tokens could come again. */
const FORGET_MS = 86_400_000;
const OWED_PAUSE_MS = 10_000;
const ONE_LOOK_MS = 1_000;

/** One lock: who holds it, who waits. What it answers is on disk before. */
export class Lock extends DurableObject<{ DB?: D1Database }> {
  /** Those who wait and are there, with how they are told that it is their turn. */
  readonly #here = new Map<string, () => void>();
  readonly #awakeAt = Date.now();
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Waits until the lock is the asker's, for at most `waitMs`. Asked again under the same id it answers the same, and keeps the place. */
  async acquire({ id, who, ttlMs, waitMs, tenantId, name }: Wanted): Promise<Turn> {
    // Who does not want to wait, waits for this look.
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
    // One who lost the connection and came back has a later call, which is the one that counts.
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

  /** Gives its holder more time, and answers whether it holds the lock still. */
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

  /** Ends a hold, or a wait. Answers whether it was held until then; the same where it is said again. */
  release(id: string): boolean {
    const { holder, waiting, released } = this.#state();
    const wasHeld = holder?.id === id;
    // A lock that was erased meanwhile stays so.
    if (!wasHeld && !waiting.some((one) => one.id === id)) return released === id;
    this.#change((now) => settled({ ...without(this.#state(), id), ...(wasHeld && { released: id }) }, now, this.#presence));
    return wasHeld;
  }

  /** Who holds the lock now; null where nobody does. */
  look(): LockSeen | null {
    this.#change((now) => settled(this.#state(), now, this.#presence));
    const { holder, waiting } = this.#state();
    if (!holder) return null;
    const { who, token, since, until } = holder;
    return { who, token, since, until, waiting: waiting.length };
  }

  /**
   * Takes the lock from its holder, on an operator's word: the audit of that is owed from the same moment on, whatever dies. Answers
   * whether anybody held it.
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

  /** Removes all that is kept of it: who holds it has lost it, who waits is told so. For a tenant that is deleted. */
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
      if (this.env.DB) await query(this.env.DB, auditDone(by, action, isBroken ? "applied" : "no_change"));
      const left = this.#state();
      this.#keep({ ...left, owed: (left.owed ?? []).filter((one) => one.action.id !== action.id) });
    }
  }

  /** When the alarm rings that forgets the lock: one alarm a day at most, however often the lock is taken. */
  #forgetAt(now: number): number {
    const { alarmAt = 0 } = this.#state();
    if (alarmAt > now) return alarmAt;
    void this.ctx.storage.setAlarm(now + FORGET_MS);
    return now + FORGET_MS;
  }

  /** Makes a change of turns, tells those whose turn it is, and looks again when the holder's time is over. */
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

  /** Keeps the list of locks in step, in the background: it shows what is held, and decides nothing. */
  #tell(statement: (lock: LockName) => Statement): void {
    const { lock } = this.#state();
    const { DB } = this.env;
    if (lock && DB) this.ctx.waitUntil(query(DB, statement(lock)).catch(() => {}));
  }

  #state(): State {
    return this.ctx.storage.kv.get<State>("state") ?? FREE;
  }

  #keep(state: State): void {
    this.ctx.storage.kv.put("state", state);
  }
}
