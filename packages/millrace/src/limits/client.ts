import { objectBinding } from "../contract/bindings.ts";
import { MillraceError, retryAfter } from "../contract/errors.ts";
import { placed } from "../contract/location.ts";
import { checkedObjectName } from "../contract/object-name.ts";
import { type Answer, type Ask, type Held, LONGEST_PAUSE_MS, type Rule } from "./plan.ts";
import type { RateLimit } from "./rate-limit.ts";
import { UNNAMED_PAUSE_MS, type UpstreamAnswer, type Word, wordOf } from "./upstream.ts";

/** The environment of a Worker with limits: the Durable Object `RateLimit`, bound as RATE_LIMIT or only exported. */
export type LimitEnv = object & { RATE_LIMIT?: DurableObjectNamespace<RateLimit> };

export interface LimitOptions {
  /** Longest wait of a take, in milliseconds. Default: 20 seconds, well below the 60 seconds of a step's attempt. */
  patienceMs?: number;
  /**
   * Longest time from the grant of a call to its arrival, in milliseconds, within which the upstream never gets more than a window's limit.
   * Default: 1 second. The margin lengthens the period: 100 per 10 s becomes 100 per 11 s. A token bucket ignores the margin.
   */
  marginMs?: number;
  /**
   * The tenant whose tokens can read the limit (`GET /v1/limits`). All callers that use the name share one limit across tenants:
   * for a limit per tenant, put the tenant into the name. Default: not visible.
   */
  tenantId?: string;
}

export interface Limit {
  /**
   * Waits until the limit allows `cost` more calls (default 1), in the order of the requests, for at most `patienceMs`. A caller that
   * reaches its slot later than half of `marginMs` asks again, queued behind the waiting callers. Errors: `retry_after`, with the wait, if
   * the wait would exceed `patienceMs`; `config_invalid` if `cost` exceeds the limit; `unavailable` if this isolate is too slow to use a
   * slot, or the limiter does not respond.
   */
  take(cost?: number, options?: Pick<LimitOptions, "patienceMs">): Promise<void>;
  /**
   * Takes `cost` permits now (default 1), or takes nothing and returns the milliseconds until enough permits are free. `remaining`: the
   * permits that can be taken at once after this call. Errors: `config_invalid`, `unavailable`.
   */
  tryTake(cost?: number): Promise<{ taken: boolean; waitMs: number; remaining: number }>;
  /**
   * Reads the upstream's response. A 429, or a 503 with `Retry-After`, stops all callers for the time it names. Then the limit spaces calls
   * evenly at half the rate, which recovers within 30 seconds without a further refusal. If the response's fields report a low remainder,
   * only that many calls go before the reset. Other responses cause no call to the limiter. Returns the milliseconds for which the upstream
   * wants no calls, for `retryAfter`; 0 if it did not refuse. Errors: `unavailable`.
   */
  heed(answer: UpstreamAnswer): Promise<number>;
  /** Stops all callers for this many milliseconds, at most a month. Errors: `config_invalid`. */
  pause(ms: number): Promise<void>;
}

const PATIENCE_MS = 20_000;
const MARGIN_MS = 1_000;
/** The longest patience and margin, in milliseconds. A timer can wait at most 24 days. */
const DAY_MS = 86_400_000;
/** The longest pause that a caller can request, in milliseconds. */
const MONTH_MS = 31 * DAY_MS;
/**
 * Delays before an unresponsive limiter is asked again, in milliseconds. A grant whose response was lost is unused; the same grant is never
 * made twice.
 */
const AGAIN_AFTER_MS = [50, 200, 800];
/** Slots that may expire unused before `take` fails because the machine is too busy. */
const MAX_MISSED_SLOTS = 5;

/**
 * The limit of this name, with one or several rules: a window `{ limit, periodMs }`, a token bucket `{ burst, refill, periodMs }`. Each
 * request carries the rules of the caller's configuration, so changed rules apply at once; all callers of a name must pass the same rules.
 * Errors: `config_invalid` for an invalid rule; `invalid_payload` for a name beyond 1,024 bytes.
 */
export function limitOf(env: LimitEnv, name: string, rules: readonly Rule[], options: LimitOptions = {}): Limit {
  const { patienceMs = PATIENCE_MS, marginMs = MARGIN_MS, tenantId } = options;
  const seenBy = tenantId === undefined ? undefined : { tenantId, name };
  assertRules(name, rules);
  assertLength(name, "patienceMs", patienceMs, DAY_MS);
  assertLength(name, "marginMs", marginMs, DAY_MS);
  const limits = objectBinding<RateLimit>(env, "RATE_LIMIT");
  // The type is written out, because the mapped types of Workers RPC lose the class.
  type LimitObject = {
    take(ask: Ask): Promise<Answer & { remaining: number }>;
    heed(word: Word): Promise<void>;
    pause(ms: number): Promise<void>;
  };
  const id = checkedObjectName(name, "name");
  const ask = async <T>(one: (object: LimitObject) => Promise<T>): Promise<T> => {
    for (const pauseMs of [...AGAIN_AFTER_MS, undefined]) {
      try {
        return await one(limits.getByName(id, placed(env)) as unknown as LimitObject);
      } catch (cause) {
        if (pauseMs === undefined) throw unanswered(name, cause);
        await scheduler.wait(pauseMs);
      }
    }
    throw unanswered(name);
  };
  return {
    async take(cost = 1, { patienceMs: patience = patienceMs } = {}) {
      assertFits(name, rules, cost);
      assertLength(name, "patienceMs", patience, DAY_MS);
      const giveUpAt = Date.now() + patience;
      let held: Held | undefined;
      for (let missed = 0; missed < MAX_MISSED_SLOTS; ) {
        const left = held === undefined ? patience : Math.max(held.isLate ? marginMs : 0, giveUpAt - Date.now());
        const wanted = { rules, cost, patienceMs: left, marginMs, held, seenBy };
        const { go, at, waitMs, revision, asksAgain } = await ask((object) => object.take(wanted));
        if (!go) throw retryAfter(waitMs, `The limit "${name}" has no capacity for ${Math.ceil(waitMs / 1000)} s. The call was not made.`);
        if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
        // Half of the margin covers the latency of the limiter's response, late timers and clock differences. The other half covers the
        // latency of the call to the
        // upstream.
        const isLate = Date.now() - at > marginMs / 2;
        if (!isLate && !asksAgain) return;
        held = { at, revision, isLate };
        if (isLate) missed++;
      }
      throw new MillraceError(
        "unavailable",
        `This machine is too busy to use its slots of the limit "${name}" in time. The call was not made.`,
      );
    },
    async tryTake(cost = 1) {
      assertFits(name, rules, cost);
      const { go, waitMs, remaining } = await ask((object) => object.take({ rules, cost, patienceMs: 0, marginMs, seenBy }));
      return { taken: go, waitMs: go ? 0 : waitMs, remaining };
    },
    async heed(answer) {
      const word = wordOf(answer);
      if (word) await ask((object) => object.heed(word));
      const { refusedForMs } = word ?? {};
      return refusedForMs === undefined ? 0 : Math.min(refusedForMs ?? UNNAMED_PAUSE_MS, LONGEST_PAUSE_MS);
    },
    async pause(ms) {
      assertLength(name, "pause", ms, MONTH_MS);
      await ask((object) => object.pause(ms));
    },
  };
}

function assertRules(name: string, rules: readonly Rule[]): void {
  if (rules.length === 0) throw invalid(`The limit "${name}" has no rule. Give it a window, such as { limit: 100, periodMs: 10_000 }.`);
  for (const rule of rules) {
    const numbers = Object.entries("burst" in rule ? { burst: rule.burst, refill: rule.refill } : { limit: rule.limit });
    for (const [field, value] of [...numbers, ["periodMs", rule.periodMs] as const]) {
      if (Number.isFinite(value) && value > 0) continue;
      throw invalid(`The limit "${name}" has a rule with ${field} ${value}. Set a number above 0.`);
    }
  }
  const kinds = rules.map((rule) => `${"burst" in rule ? "bucket" : "window"} of ${rule.periodMs} ms`);
  const twice = kinds.find((kind, index) => kinds.indexOf(kind) !== index);
  if (twice) throw invalid(`The limit "${name}" has more than one ${twice}. Keep the stricter one.`);
}

function assertLength(name: string, what: string, ms: number, mostMs: number): void {
  if (ms >= 0 && ms <= mostMs) return;
  throw invalid(`The limit "${name}" has a ${what} of ${ms}. Set 0 to ${mostMs} milliseconds.`);
}

function unanswered(name: string, cause?: unknown): MillraceError {
  return new MillraceError("unavailable", `The limit "${name}" did not respond. The call was not made: try again.`, {
    delayMs: 1_000,
    cause,
  });
}

function assertFits(name: string, rules: readonly Rule[], cost: number): void {
  const least = Math.min(...rules.map((rule) => ("burst" in rule ? rule.burst : rule.limit)));
  if (cost > 0 && cost <= least) return;
  throw invalid(`The limit "${name}" allows at most ${least} at once, not ${cost}. Take less, or raise the limit.`);
}

function invalid(message: string): MillraceError {
  return new MillraceError("config_invalid", message);
}
