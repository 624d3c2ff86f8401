import { DurableObject } from "cloudflare:workers";
import { SharedWrite } from "../contract/shared-write.ts";
import { type Answer, type Ask, give, heeded, type Lease, type LeaseAsk, lease, NOTHING, paused, type State } from "./plan.ts";
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

  take(ask: Ask): Promise<Answer> {
    return this.#change((state, now) => give(state, ask, now));
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
