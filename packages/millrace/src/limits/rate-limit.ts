import { DurableObject } from "cloudflare:workers";
import { SharedWrite } from "../contract/shared-write.ts";
import { query } from "../store/d1/retry.ts";
import { type LimitName, listLimit } from "../store/limits.ts";
import { type LimitSeen, seenOf } from "./look.ts";
import {
  type Answer,
  ASK_AGAIN_MS,
  type Ask,
  give,
  heeded,
  type Lease,
  type LeaseAsk,
  LONGEST_PAUSE_MS,
  lease,
  NOTHING,
  paused,
  type State,
  slowestRate,
} from "./plan.ts";
import type { Word } from "./upstream.ts";

/**
 * A limit that many callers share: sliding windows and token buckets, several at once. It gives away moments, and a moment is on disk
 * before its owner hears of it, so neither an eviction nor a crash lets anything go twice. A caller that dies with its moment wastes it;
 * one that comes too late for it gives it back. What it keeps is bounded by the rules and the patience, not by the traffic.
 */
export class RateLimit extends DurableObject<{ DB?: D1Database }> {
  /** As it is on disk, or will be before anybody hears of it. */
  #state: State | undefined;
  readonly #disk = new SharedWrite(async () => {
    this.ctx.storage.kv.put("state", this.#state);
    await this.ctx.storage.sync();
  });

  /** When the next one who is turned away shall come back. In memory alone: it spreads them, and promises nothing. */
  #backAt = 0;

  /** Tenants that have it in their list. In memory alone: that they are listed twice does nothing. */
  readonly #listedFor = new Set<string>();

  async take(ask: Ask): Promise<Answer> {
    if (ask.seenBy) this.#list(ask.seenBy);
    const answer = await this.#change((state, now) => {
      const given = give(state, ask, now);
      return given.state === state ? given : { ...given, state: { ...given.state, rules: ask.rules } };
    });
    const comesBack = ask.held !== undefined || ask.patienceMs > ASK_AGAIN_MS;
    return answer.go || !comesBack ? answer : this.#later(answer, ask);
  }

  /** A time of its own for each that is turned away, as far apart as they may go: told the same one, they would collide again. */
  #later(answer: Answer, { cost, rules }: Ask): Answer {
    const now = answer.at - answer.waitMs;
    const at = Math.max(answer.at, Math.min(this.#backAt, now + LONGEST_PAUSE_MS));
    this.#backAt = at + cost / slowestRate(rules);
    return { ...answer, at, waitMs: Math.ceil(at - now) };
  }

  /** Permits that are used soon, for one who asks on behalf of many. */
  lease(ask: LeaseAsk): Promise<Lease> {
    return this.#change((state, now) => lease(state, ask, now));
  }

  /** Gives nothing away for so long, and takes back what lies further ahead. A shorter pause does not end a longer one. */
  pause(ms: number): Promise<void> {
    return this.#change((state, now) => ({ answer: undefined, state: paused(state, ms, now) }));
  }

  /** Takes an upstream's word into account. */
  heed(word: Word): Promise<void> {
    return this.#change((state, now) => ({ answer: undefined, state: heeded(state, word, now) }));
  }

  /** How it stands; undefined where nobody uses it any more. */
  look(): LimitSeen | undefined {
    const seen = seenOf(this.#now(), Date.now());
    if (!seen) this.#listedFor.clear();
    return seen;
  }

  /** Where the database does not answer, the next take tries again. */
  #list(by: LimitName): void {
    const { DB } = this.env;
    if (!DB || this.#listedFor.has(by.tenantId)) return;
    this.#listedFor.add(by.tenantId);
    this.ctx.waitUntil(query(DB, listLimit(by)).catch(() => this.#listedFor.delete(by.tenantId)));
  }

  #now(): State {
    return this.#state ?? this.ctx.storage.kv.get<State>("state") ?? NOTHING;
  }

  async #change<T>(step: (state: State, now: number) => { answer: T; state: State }): Promise<T> {
    const before = this.#now();
    const { answer, state } = step(before, Date.now());
    this.#state = state;
    // Where the write fails, what was given away stays so in memory: nobody has heard of it, and nothing goes twice.
    if (state !== before) await this.#disk.done();
    return answer;
  }
}
