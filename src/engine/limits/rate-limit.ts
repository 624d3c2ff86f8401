import { DurableObject } from "cloudflare:workers";
import { type Answer, type Ask, give, heeded, type Lease, type LeaseAsk, lease, NOTHING, paused, type State } from "./plan.ts";
import type { Word } from "./upstream.ts";

/**
 * A limit that many callers share: sliding windows and token buckets, several at once. It gives away moments, and a moment is on disk
 * before its owner hears of it, so neither an eviction nor a crash lets anything go twice. A caller that dies with its moment wastes it;
 * one that comes too late for it gives it back. What it keeps is bounded by the rules and the patience, not by the traffic.
 */
export class RateLimit extends DurableObject {
  take(ask: Ask): Answer {
    return this.#change((state, now) => give(state, ask, now));
  }

  /** Permits that are used soon, for one who asks on behalf of many. */
  lease(ask: LeaseAsk): Lease {
    return this.#change((state, now) => lease(state, ask, now));
  }

  /** Gives nothing away for so long, and takes back what lies further ahead. A shorter pause does not end a longer one. */
  pause(ms: number): void {
    this.#change((state, now) => ({ answer: undefined, state: paused(state, ms, now) }));
  }

  /** Takes an upstream's word into account. */
  heed(word: Word): void {
    this.#change((state, now) => ({ answer: undefined, state: heeded(state, word, now) }));
  }

  #change<T>(step: (state: State, now: number) => { answer: T; state: State }): T {
    const before = this.ctx.storage.kv.get<State>("state") ?? NOTHING;
    const { answer, state } = step(before, Date.now());
    if (state !== before) this.ctx.storage.kv.put("state", state);
    return answer;
  }
}
