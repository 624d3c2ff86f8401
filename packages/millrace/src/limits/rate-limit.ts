import { DurableObject } from "cloudflare:workers";
import { SharedWrite } from "../contract/shared-write.ts";
import { cellOf } from "../store/cells.ts";
import { query } from "../store/d1/retry.ts";
import { type LimitName, listLimit } from "../store/limits.ts";
import { shareAt, type TokenBucket, tokensAt } from "./bucket.ts";
import {
  type Answer,
  ASK_AGAIN_MS,
  type Ask,
  give,
  heeded,
  isBucket,
  type Lease,
  type LeaseAsk,
  LONGEST_PAUSE_MS,
  lease,
  levelOf,
  NOTHING,
  paused,
  type Rule,
  remainingOf,
  type State,
  slowestRate,
  waitingAt,
} from "./plan.ts";
import type { Word } from "./upstream.ts";
import { cutCounts, room, type Window } from "./windows.ts";

/**
 * A limit that many callers share. The limit can combine several sliding windows and token buckets. The object grants each call a slot,
 * which is the time at which the call is allowed. A slot is on disk before its owner gets the response, so that no eviction or crash of the
 * object grants the slot twice. If a caller dies before its slot, the slot remains unused. A late caller returns its slot. The size of the
 * stored state depends on the rules and on `patienceMs`, not on the traffic.
 */
export class RateLimit extends DurableObject<{ DB?: D1Database }> {
  /** The state on disk, or the state that is written before the next response. */
  #state: State | undefined;
  readonly #disk = new SharedWrite(async () => {
    this.ctx.storage.kv.put("state", this.#state);
    await this.ctx.storage.sync();
  });

  /**
   * The time at which the next refused caller should repeat its request. The value is stored only in memory, because its only purpose is to
   * spread the callers.
   */
  #backAt = 0;

  /** Tenants that have the limit in their list. The set is stored only in memory, because a repeated addition to the list has no effect. */
  readonly #listedFor = new Set<string>();

  async take(ask: Ask): Promise<Answer & { remaining: number }> {
    if (ask.seenBy) this.#list(ask.seenBy);
    const { remaining, ...answer } = await this.#change((before, now) => {
      const given = give(before, ask, now);
      const state = given.state === before ? before : { ...given.state, rules: ask.rules };
      return { answer: { ...given.answer, remaining: remainingOf(state, ask, now) }, state };
    });
    const comesBack = ask.held !== undefined || ask.patienceMs > ASK_AGAIN_MS;
    return { ...(answer.go || !comesBack ? answer : this.#later(answer, ask)), remaining };
  }

  /**
   * Gives each refused caller a different time for the next request, spaced by the rate. Callers that repeat their requests at the same
   * time would collide again.
   */
  #later(answer: Answer, { cost, rules }: Ask): Answer {
    const now = answer.at - answer.waitMs;
    const at = Math.max(answer.at, Math.min(this.#backAt, now + LONGEST_PAUSE_MS));
    this.#backAt = at + cost / slowestRate(rules);
    return { ...answer, at, waitMs: Math.ceil(at - now) };
  }

  /** Grants permits for use within a short time to a caller that counts many requests. */
  lease(ask: LeaseAsk): Promise<Lease> {
    return this.#change((state, now) => lease(state, ask, now));
  }

  /** Grants no slot for `ms` milliseconds, and revokes granted slots. A shorter pause does not end a longer pause. */
  pause(ms: number): Promise<void> {
    return this.#change((state, now) => ({ answer: undefined, state: paused(state, ms, now) }));
  }

  heed(word: Word): Promise<void> {
    return this.#change((state, now) => ({ answer: undefined, state: heeded(state, word, now) }));
  }

  /** The current state of the limit; undefined if the limit is no longer used. */
  look(): LimitSeen | undefined {
    const seen = seenOf(this.#now(), Date.now());
    if (!seen) this.#listedFor.clear();
    return seen;
  }

  /** Adds the limit to the tenant's list in the database. If the database does not respond, the next take repeats the addition. */
  #list(by: LimitName): void {
    if (!this.env.DB || this.#listedFor.has(by.tenantId)) return;
    this.#listedFor.add(by.tenantId);
    const listing = cellOf(this.env, by.tenantId).then(({ DB }) => DB && query(DB, listLimit(by)));
    this.ctx.waitUntil(listing.catch(() => this.#listedFor.delete(by.tenantId)));
  }

  #now(): State {
    return this.#state ?? this.ctx.storage.kv.get<State>("state") ?? NOTHING;
  }

  async #change<T>(step: (state: State, now: number) => { answer: T; state: State }): Promise<T> {
    const before = this.#now();
    const { answer, state } = step(before, Date.now());
    this.#state = state;
    // If the write fails, the grant remains in memory. Then no caller got the slot, and the slot is not granted again.
    if (state !== before) await this.#disk.done();
    return answer;
  }
}

/** The state of a limit. The schema `LimitRow` describes the fields. Times are in milliseconds. */
export interface LimitSeen {
  rules: { limit: number; refill: number | null; period_seconds: number; used: number }[];
  waiting: number;
  paused_until: number | null;
  share: number;
  used_at: number;
}

/** A limit without takes for this many milliseconds is no longer listed. */
const FORGOTTEN_MS = 86_400_000;

/** The state of a limit by the rules of its last request; undefined for a limit that is no longer used. */
function seenOf(state: State, now: number): LimitSeen | undefined {
  const { rules, lastAt, pausedUntil, narrowing } = state;
  if (!rules || Math.max(lastAt, pausedUntil) < now - FORGOTTEN_MS) return undefined;
  return {
    rules: rules.map((rule) => ruleOf(state, rule, now)),
    waiting: waitingAt(state, now),
    paused_until: pausedUntil > now ? pausedUntil : null,
    share: shareAt(narrowing, now),
    used_at: lastAt,
  };
}

function ruleOf(state: State, rule: Rule, now: number): LimitSeen["rules"][number] {
  const period_seconds = rule.periodMs / 1000;
  if (!isBucket(rule)) return { limit: rule.limit, refill: null, period_seconds, used: usedOfWindow(state, rule, now) };
  return { limit: rule.burst, refill: rule.refill, period_seconds, used: usedOfBucket(state, rule, now) };
}

function usedOfWindow({ counts }: State, window: Window, now: number): number {
  const begun = cutCounts(counts[window.periodMs] ?? [], window.periodMs, now);
  return window.limit - room({ window, counts: begun, marginMs: 0 }, now);
}

/**
 * Returns the used tokens of a bucket. The result includes slots that are granted for later, because a bucket stores only the level after
 * these slots.
 */
function usedOfBucket(state: State, bucket: TokenBucket, now: number): number {
  const level = levelOf(state, bucket);
  return bucket.burst - tokensAt(bucket, level, Math.max(now, level.at));
}
