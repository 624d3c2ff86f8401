import { type TokenBucket, tokensAt } from "./bucket.ts";
import { shareAt } from "./narrowing.ts";
import { isBucket, levelOf, type Rule, type State, waitingAt } from "./plan.ts";
import { cutCounts, room, type Window } from "./windows.ts";

/** A rule, and how much of it is used. */
export type RuleSeen = Rule & { used: number };

/** How a limit stands. */
export interface LimitSeen {
  rules: RuleSeen[];
  /** Given away of the time to come: those who wait for their turn. */
  waiting: number;
  /** Nothing goes until then; null where something may. */
  pausedUntil: number | null;
  /** The share of its rate at which it lets calls go, because the upstream refused some; 1 for the whole. */
  share: number;
  /** The last moment that was given away. */
  usedAt: number;
}

/** A limit that nobody took from for so long, in milliseconds, is shown no more. */
const FORGOTTEN_MS = 86_400_000;

/** How a limit stands, by the rules that it was last asked with; undefined for one that is not used any more. */
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

/** With what was given away of the time to come: a bucket knows only how full it is behind that. */
function usedOfBucket(state: State, bucket: TokenBucket, now: number): number {
  const level = levelOf(state, bucket);
  return bucket.burst - tokensAt(bucket, level, Math.max(now, level.at));
}
