import { type TokenBucket, tokensAt } from "./bucket.ts";
import { shareAt } from "./narrowing.ts";
import { isBucket, levelOf, type Rule, type State, waitingAt } from "./plan.ts";
import { cutCounts, room, type Window } from "./windows.ts";

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
export function seenOf(state: State, now: number): LimitSeen | undefined {
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
