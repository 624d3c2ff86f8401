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
  /** Maximum wait of `take`, in milliseconds. Default: 20 seconds, which is far below the 60 seconds of a step's attempt. */
  patienceMs?: number;
  /**
   * Maximum time in milliseconds from the grant of a call to the arrival of the call at the upstream. If no call takes longer, the upstream
   * never gets more calls than a window allows. Default: 1 second. The margin lengthens the window's period, so that 100 calls per 10 s
   * become 100 calls per 11 s. A token bucket ignores the margin.
   */
  marginMs?: number;
  /**
   * The tenant whose tokens can read the limit (`GET /v1/limits`). All callers that use the same name share one limit, even across tenants.
   * For a limit per tenant, the name must contain the tenant. Default: no tenant's tokens can read the limit.
   */
  tenantId?: string;
}

export interface Limit {
  /**
   * Waits for at most `patienceMs` until the limit allows `cost` further calls (default 1). Callers proceed in the order of their requests.
   * A caller that is late for its slot by more than half of `marginMs` requests a new slot, behind all waiting callers. Errors:
   * `retry_after`, with the wait, if the wait would exceed `patienceMs`; `config_invalid` if `cost` exceeds the limit; `unavailable` if
   * this isolate is too slow to use a slot, or the limiter does not respond.
   */
  take(cost?: number, options?: Pick<LimitOptions, "patienceMs">): Promise<void>;
  /**
   * Takes `cost` permits now (default 1). If fewer permits are free, the method takes no permits and returns the milliseconds until enough
   * permits are free. `remaining` is the count of permits that can be taken at once after this call. Errors: `config_invalid`,
   * `unavailable`.
   */
  tryTake(cost?: number): Promise<{ taken: boolean; waitMs: number; remaining: number }>;
  /**
   * Reads the upstream's response. A 429, or a 503 with `Retry-After`, stops all callers for the time that the response contains. Then the
   * limit spaces calls evenly at half the rate. Without a further refusal the full rate returns within 30 seconds. If the response's header
   * fields report a low count of remaining calls, only that many calls are allowed before the reset. Other responses cause no call to the
   * limiter. Returns the milliseconds for which the upstream accepts no calls, as an argument for `retryAfter`; 0 if the upstream did not
   * refuse the call. Errors: `unavailable`.
   */
  heed(answer: UpstreamAnswer): Promise<number>;
  /** Stops all callers for this many milliseconds, at most a month. Errors: `config_invalid`. */
  pause(ms: number): Promise<void>;
}

const PATIENCE_MS = 20_000;
const MARGIN_MS = 1_000;
/** Maximum of `patienceMs` and of `marginMs`, in milliseconds. A timer can wait at most 24 days. */
const DAY_MS = 86_400_000;
/** Maximum length of a pause that a caller can request, in milliseconds. */
const MONTH_MS = 31 * DAY_MS;
/**
 * Delays before a request to an unresponsive limiter is repeated, in milliseconds. If the response with a grant is lost, the grant remains
 * unused, and the repeated request gets a new grant.
 */
const AGAIN_AFTER_MS = [50, 200, 800];
/** Maximum number of slots that may expire unused. After that, `take` fails because the machine is too busy. */
const MAX_MISSED_SLOTS = 5;

/**
 * Returns the limit with this name. Each rule is a window `{ limit, periodMs }` or a token bucket `{ burst, refill, periodMs }`. Each
 * request contains the caller's rules, so that changed rules apply at once. All callers that use the same name must pass the same rules.
 * Errors: `config_invalid` for an invalid rule; `invalid_payload` for a name longer than 1,024 bytes.
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
        // Half of the margin covers the latency of the limiter's response, late timers and differences between clocks. The other half of
        // the margin covers the latency of the call to the upstream.
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
