import { DurableObject } from "cloudflare:workers";
import { SharedWrite } from "../contract/shared-write.ts";
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
export class RateLimit extends DurableObject {
  /** As it is on disk, or will be before anybody hears of it. */
  #state: State | undefined;
  readonly #disk = new SharedWrite(async () => {
    this.ctx.storage.kv.put("state", this.#state);
    await this.ctx.storage.sync();
  });

  /** When the next one who is turned away shall come back. In memory alone: it spreads them, and promises nothing. */
  #backAt = 0;

  async take(ask: Ask): Promise<Answer> {
    const answer = await this.#change((state, now) => give(state, ask, now));
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

  async #change<T>(step: (state: State, now: number) => { answer: T; state: State }): Promise<T> {
    const before = this.#state ?? this.ctx.storage.kv.get<State>("state") ?? NOTHING;
    const { answer, state } = step(before, Date.now());
    this.#state = state;
    // Where the write fails, what was given away stays so in memory: nobody has heard of it, and nothing goes twice.
    if (state !== before) await this.#disk.done();
    return answer;
  }
}
