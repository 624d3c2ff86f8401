import { type TokenBucket, tokensAt } from "./bucket.ts";
import { shareAt } from "./narrowing.ts";
import { isBucket, levelOf, type Rule, type State, waitingAt } from "./plan.ts";
import { cutCounts, room, type Window } from "./windows.ts";

/** A rule with its used part. */
export type RuleSeen = Rule & { used: number };

/** The state of a limit. */
export interface LimitSeen {
  rules: RuleSeen[];
  /** Slots granted ahead of time, for callers that wait. */
  waiting: number;
  /** Until this time no calls are allowed; null if calls are allowed now. */
  pausedUntil: number | null;
  /** The share of the rate at which calls go after the upstream's refusals; 1 for the full rate. */
  share: number;
  /** The time of the last granted slot. */
  usedAt: number;
}

/** A limit without takes for this many milliseconds is no longer listed. */
const FORGOTTEN_MS = 86_400_000;

/** The state of a limit by the rules of its last request; undefined for a limit that is no longer used. */
export function seenOf(state: State, now: number): LimitSeen | undefined {
  const { rules, lastAt, pausedUntil, narrowing } = state;
  if (!rules || Math.max(lastAt, pausedUntil) < now - FORGOTTEN_MS) return undefined;
  return {
    rules: rules.map((rule) => ({ ...rule, used: isBucket(rule) ? usedOfBucket(state, rule, now) : usedOfWindow(state, rule, now) })),
    waiting: waitingAt(state, now),
    pausedUntil: pausedUntil > now ? pausedUntil : null,
    share: shareAt(narrowing, now),
    usedAt: lastAt,
  };
}

function usedOfWindow({ counts }: State, window: Window, now: number): number {
  const begun = cutCounts(counts[window.periodMs] ?? [], window.periodMs, now);
  return window.limit - room({ window, counts: begun, marginMs: 0 }, now);
}

/** Includes the slots granted ahead of time: a bucket stores only its level after them. */
function usedOfBucket(state: State, bucket: TokenBucket, now: number): number {
  const level = levelOf(state, bucket);
  return bucket.burst - tokensAt(bucket, level, Math.max(now, level.at));
}
