import { objectBinding } from "../contract/bindings.ts";
import { MillraceError, retryAfter } from "../contract/errors.ts";
import { placed } from "../contract/location.ts";
import { checkedObjectName } from "../contract/object-name.ts";
import { type Answer, type Ask, type Held, LONGEST_PAUSE_MS, type Rule } from "./plan.ts";
import type { RateLimit } from "./rate-limit.ts";
import { UNNAMED_PAUSE_MS, type UpstreamAnswer, type Word, wordOf } from "./upstream.ts";

/** The Worker of a limit has the Durable Object `RateLimit`, bound as RATE_LIMIT or only exported. */
export type LimitEnv = object & { RATE_LIMIT?: DurableObjectNamespace<RateLimit> };

export interface LimitOptions {
  /** The longest wait in a take, in milliseconds. Default: 20 seconds, short beside the 60 that a step's attempt has by default. */
  patienceMs?: number;
  /**
   * What a call may take from its grant to its arrival, in milliseconds, without the upstream ever seeing more than a window's limit.
   * Default: 1 second. Costs its share of the period: 100 per 10 s becomes 100 per 11 s. A token bucket is kept as calls are granted.
   */
  marginMs?: number;
  /**
   * A tenant whose tokens may see how the limit stands (`GET /v1/limits`): in its name it is taken from. It is one limit for all who name
   * it, whosever they are: where tenants have one each, their names say so. Default: nobody sees it.
   */
  tenantId?: string;
}

/** One limit, shared by all who name it. */
export interface Limit {
  /**
   * Waits until `cost` more is allowed (default 1), in the order in which callers asked, for at most `patienceMs` (default the limit's). One
   * that comes later to its moment than by half of `marginMs` asks anew, behind those who wait.
   * Errors: `retry_after`, with the wait, when that would be longer; `config_invalid` when it will never be; `unavailable` when this
   * isolate is too slow to keep a moment, or the limiter does not answer.
   */
  take(cost?: number, options?: Pick<LimitOptions, "patienceMs">): Promise<void>;
  /** Takes `cost` now (default 1), or answers in how many milliseconds there will be room, and takes nothing. Errors: `config_invalid`, `unavailable`. */
  tryTake(cost?: number): Promise<{ taken: boolean; waitMs: number }>;
  /**
   * Hears what the upstream answered. A 429, or a 503 with `Retry-After`, holds everybody back for as long as it says, and then lets
   * calls go evenly at half the rate, which is whole again 30 seconds later if no other refusal comes; where its fields say that little is
   * left, no more than that goes before their reset. Asks nothing of the limiter where the answer says nothing of the kind. Answers for how
   * many milliseconds the upstream wants to hear of nobody: for `retryAfter`; 0 where it did not refuse. Errors: `unavailable`.
   */
  heed(answer: UpstreamAnswer): Promise<number>;
  /** Holds everybody back for so long, in milliseconds, a month at most: the upstream said that it has had enough. Errors: `config_invalid`. */
  pause(ms: number): Promise<void>;
}

const PATIENCE_MS = 20_000;
const MARGIN_MS = 1_000;
/** The longest patience and margin, in milliseconds; a timer takes no more than 24 days. */
const DAY_MS = 86_400_000;
/** The longest pause that a caller may ask for, in milliseconds. */
const MONTH_MS = 31 * DAY_MS;
/** Pauses before a silent limiter is asked again, in milliseconds: what it gave away unheard is wasted, and never goes twice. */
const AGAIN_AFTER_MS = [50, 200, 800];
/** Slots that may expire unused before `take` gives up: its machine is far too busy then. */
const MAX_MISSED_SLOTS = 5;

/**
 * The limit of this name, by one rule or several: a window `{ limit, periodMs }`, a token bucket `{ burst, refill, periodMs }`. They belong
 * to the caller's configuration and go with each question, so that changed ones hold at once; whoever shares a name says the same ones.
 * Errors: `config_invalid` for a rule that is none; `invalid_payload` for a name beyond 1,024 bytes.
 */
export function limitOf(env: LimitEnv, name: string, rules: readonly Rule[], options: LimitOptions = {}): Limit {
  const { patienceMs = PATIENCE_MS, marginMs = MARGIN_MS, tenantId } = options;
  const seenBy = tenantId === undefined ? undefined : { tenantId, name };
  assertRules(name, rules);
  assertLength(name, "patienceMs", patienceMs, DAY_MS);
  assertLength(name, "marginMs", marginMs, DAY_MS);
  const limits = objectBinding<RateLimit>(env, "RATE_LIMIT");
  // RPC's mapped types lose the class.
  type LimitObject = { take(ask: Ask): Promise<Answer>; heed(word: Word): Promise<void>; pause(ms: number): Promise<void> };
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
        if (!go) throw retryAfter(waitMs, `The limit "${name}" has no room for ${Math.ceil(waitMs / 1000)} s. Nothing was sent.`);
        if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
        // Half of the margin is for the way back from the limiter, late timers and clocks that differ, half for the way to the upstream.
        const isLate = Date.now() - at > marginMs / 2;
        if (!isLate && !asksAgain) return;
        held = { at, revision, isLate };
        if (isLate) missed++;
      }
      throw new MillraceError("unavailable", `This machine is too busy to keep to the limit "${name}". Nothing was sent.`);
    },
    async tryTake(cost = 1) {
      assertFits(name, rules, cost);
      const { go, waitMs } = await ask((object) => object.take({ rules, cost, patienceMs: 0, marginMs, seenBy }));
      return { taken: go, waitMs: go ? 0 : waitMs };
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
      throw invalid(`The limit "${name}" has a rule whose ${field} is ${value}. Say a number above 0.`);
    }
  }
  const kinds = rules.map((rule) => `${"burst" in rule ? "bucket" : "window"} of ${rule.periodMs} ms`);
  const twice = kinds.find((kind, index) => kinds.indexOf(kind) !== index);
  if (twice) throw invalid(`The limit "${name}" has more than one ${twice}. Keep the narrower one.`);
}

function assertLength(name: string, what: string, ms: number, mostMs: number): void {
  if (ms >= 0 && ms <= mostMs) return;
  throw invalid(`The limit "${name}" has a ${what} of ${ms}. Say milliseconds, from 0 to ${mostMs}.`);
}

function unanswered(name: string, cause?: unknown): MillraceError {
  return new MillraceError("unavailable", `The limit "${name}" did not answer. Nothing was sent: try again.`, { delayMs: 1_000, cause });
}

function assertFits(name: string, rules: readonly Rule[], cost: number): void {
  const least = Math.min(...rules.map((rule) => ("burst" in rule ? rule.burst : rule.limit)));
  if (cost > 0 && cost <= least) return;
  throw invalid(`${cost} never fits into the limit "${name}", which is ${least}. Ask for less or raise it.`);
}

function invalid(message: string): MillraceError {
  return new MillraceError("config_invalid", message);
}
