import type { LimitName } from "../store/limits.ts";
import { cutLevel, earliestIn, full, type Level, returned, type TokenBucket, taken } from "./bucket.ts";
import { type Narrowing, narrowed, spaced, spacing } from "./narrowing.ts";
import { UNNAMED_PAUSE_MS, type Word } from "./upstream.ts";
import { type Counts, counted, cutCounts, earliest, fits, type Granted, room, type Window } from "./windows.ts";

/** One rule of a limit. */
export type Rule = Window | TokenBucket;

/** What a limiter remembers. One value: a take is one written row, however many rules there are. */
export interface State {
  /** The last moment that was given away. Later askers come after it, so that they go in the order in which they asked. */
  lastAt: number;
  pausedUntil: number;
  /** The rules that it was last asked with, for people to see. */
  rules?: readonly Rule[];
  /** By the window's period: a limit that is raised or lowered keeps what was counted. */
  counts: Record<string, Counts>;
  /** By the bucket's period. */
  levels?: Record<string, Level>;
  narrowing?: Narrowing | undefined;
  /** What the upstream says is left until when: one for each of its resets. */
  lefts?: readonly { count: number; until: number }[];
  /** What was given away of time to come, by parts of it. */
  ahead?: Record<string, number>;
  /** Counts how often moments were taken back. */
  revision?: number;
  /** The end of the line of those whose moments were taken back: until then they ask again, and who is new comes after them. */
  lineUntil?: number;
}

export const NOTHING: State = { lastAt: 0, pausedUntil: 0, counts: {} };

/** A moment that was given away, with the revision that it was given under. */
export interface Held {
  at: number;
  revision: number;
  /** True where its owner was too late for it: it goes back, and a place is looked for from now on. */
  isLate?: boolean;
}

export interface Ask {
  rules: readonly Rule[];
  /** How many of what is limited. */
  cost: number;
  /** The longest wait, in milliseconds, that is worth a reservation. */
  patienceMs: number;
  /** By how much a window's period is lengthened, in milliseconds. */
  marginMs: number;
  /** What this asker was given before. */
  held?: Held | undefined;
  /** Who may look at the limit, and under which name. */
  seenBy?: LimitName | undefined;
}

/** `go` is a reservation for the moment `at`, in `waitMs`. Without it nothing was reserved, and before then nothing will be free. */
export interface Answer {
  go: boolean;
  /** Milliseconds since 1970, by the limiter's clock. */
  at: number;
  waitMs: number;
  revision: number;
  /** True where its owner asks once more when the moment has come. */
  asksAgain: boolean;
}

/** Whoever waits longer than this, in milliseconds, asks once more when its moment has come: it may have been taken back. */
export const ASK_AGAIN_MS = 1_000;
/** The longest wait that an upstream's word is taken for, in milliseconds: behind a mistake in a header somebody looks again in an hour. */
export const LONGEST_PAUSE_MS = 3_600_000;

/** Gives a moment away, if it is worth waiting for. Answers the state behind it; the same one where nothing changed. */
export function give(before: State, { rules, cost, patienceMs, marginMs, held }: Ask, now: number): { answer: Answer; state: State } {
  const revision = before.revision ?? 0;
  const isGood = held?.revision === revision;
  if (held && isGood && !held.isLate) return { answer: reserved(held.at, revision, now), state: before };
  if (!held && (before.lineUntil ?? 0) > now) return lined(before, { rules, cost, patienceMs, marginMs }, now);

  const isBack = held !== undefined && isGood;
  const state = isBack ? without(before, rules, { cost, at: held.at }, marginMs, now) : before;
  const soonest = Math.max(now, state.pausedUntil);
  const at =
    isBack && fitsBetween(state, rules, { cost, at: soonest }, marginMs)
      ? soonest
      : firstAfter(state, rules, { cost, at: Math.max(soonest, state.lastAt) }, marginMs);
  if (at - now > patienceMs) return { answer: { ...reserved(at, revision, now), go: false }, state };
  return { answer: reserved(at, revision, now), state: granted(state, rules, { cost, at }, marginMs, now) };
}

function reserved(at: number, revision: number, now: number): Answer {
  const waitMs = Math.max(0, at - now);
  return { go: true, at, waitMs, revision, asksAgain: waitMs > ASK_AGAIN_MS };
}

/** So late may one who waited ask again, in milliseconds, by its timer and its way here, and still come before those who are new. */
const LINE_GRACE_MS = 100;
/** So far apart, in milliseconds, come those who are new behind a line, or nearer where the rules let them go faster: in order. */
const LINE_STEP_MS = 25;

/** A place behind those whose moments were taken back: nothing is reserved, and its owner asks again when all of them have. */
function lined(before: State, { rules, cost, patienceMs, marginMs }: Ask, now: number): { answer: Answer; state: State } {
  const stepMs = Math.min(LINE_STEP_MS, cost / fastestRate(rules));
  const lineUntil = Math.max(before.lineUntil ?? 0, now) + stepMs;
  const at = Math.max(now, before.pausedUntil, before.lastAt);
  const waitMs = Math.max(lineUntil, firstAfter(before, rules, { cost, at }, marginMs)) - now;
  const revision = (before.revision ?? 0) - 1;
  if (waitMs > patienceMs) return { answer: { go: false, at: now + waitMs, waitMs, revision, asksAgain: false }, state: before };
  return { answer: { go: true, at: lineUntil, waitMs: lineUntil - now, revision, asksAgain: true }, state: { ...before, lineUntil } };
}

/** The state in which nothing is given away for so long, in milliseconds. */
export function paused(state: State, ms: number, now: number): State {
  const pausedUntil = now + ms;
  return pausedUntil > state.pausedUntil ? revoked({ ...state, pausedUntil }, now) : state;
}

/** The state after an upstream's word: a refusal pauses and narrows, what is left is all that goes until its reset. */
export function heeded(state: State, { refusedForMs, left }: Word, now: number): State {
  if (refusedForMs !== undefined) {
    const waited = paused(state, Math.min(refusedForMs ?? UNNAMED_PAUSE_MS, LONGEST_PAUSE_MS), now);
    return { ...waited, narrowing: narrowed(state.narrowing, now, Math.max(waited.pausedUntil, now)) };
  }
  const lefts = (left ?? []).reduce((known, one) => toldOf(state, known, one, now), state.lefts ?? []);
  return lefts === state.lefts || lefts.length === 0 ? state : revoked({ ...state, lefts }, now);
}

type Lefts = NonNullable<State["lefts"]>;

/** Resets that are kept; of more those that leave the most are forgotten. */
const MOST_RESETS = 8;

/** What is left by all resets, with one more that was told of. */
function toldOf(state: State, known: Lefts, { count, forMs }: { count: number; forMs: number }, now: number): Lefts {
  const until = now + Math.min(forMs, LONGEST_PAUSE_MS);
  // Answers overtake each other: of one reset the least is the latest.
  if (known.some((one) => one.until > now && one.count <= count && one.until >= until - ASK_AGAIN_MS)) return known;
  // What is let go within the next second goes all the same.
  const told = { count: Math.max(0, count - soonGiven(state, now)), until };
  const others = known.filter((one) => one.until > now && !(one.count >= told.count && one.until <= until + ASK_AGAIN_MS));
  return [...others, told].toSorted((one, other) => one.count - other.count).slice(0, MOST_RESETS);
}

/** What was given away for the next second, and is not taken back. */
function soonGiven({ ahead = {} }: State, now: number): number {
  const soon = Object.entries(ahead).filter(([part]) => (Number(part) + 1) * PART_MS > now && Number(part) * PART_MS <= now + ASK_AGAIN_MS);
  return soon.reduce((sum, [, cost]) => sum + cost, 0);
}

/** What was given away of the time to come. */
export function waitingAt({ ahead = {} }: State, now: number): number {
  return Object.entries(ahead).reduce((sum, [part, cost]) => (Number(part) * PART_MS > now ? sum + cost : sum), 0);
}

/** What is given away ahead, with one take more. */
function aheadOf(known: Record<string, number> = {}, { cost, at }: Take, now: number): Record<string, number> {
  const kept = Object.entries(known).filter(([part]) => (Number(part) + 1) * PART_MS > now);
  const part = Math.floor(at / PART_MS);
  return { ...Object.fromEntries(kept), ...(at > now && { [part]: (known[part] ?? 0) + cost }) };
}

/** What is given away ahead is counted by such parts of time, in milliseconds. */
const PART_MS = 250;

/** A part of a window's room, given away at once: at least one, at most so many. */
export interface Lease {
  given: number;
  /** Without any given: when one will be free, in milliseconds. */
  waitMs: number;
}

/** What one asks who spends its permits within `forMs`. `used` were spent before without asking. */
export interface LeaseAsk {
  window: Window;
  most: number;
  used: number;
  forMs: number;
}

/** Gives away up to so many permits of a window, for use within so long. */
export function lease(state: State, { window, most, used, forMs }: LeaseAsk, now: number): { answer: Lease; state: State } {
  const of = (counts: Counts): Granted => ({ window, counts, marginMs: forMs });
  const counts = state.counts[window.periodMs] ?? [];
  const known = used > 0 ? counted(of(counts), { cost: used, at: now }, now) : counts;
  const given = Math.max(0, Math.min(most, Math.floor(room(of(known), now))));
  const next = given > 0 ? counted(of(known), { cost: given, at: now }, now) : known;
  const waitMs = given > 0 ? 0 : earliest(of(next), { cost: 1, at: now }) - now;
  return { answer: { given, waitMs }, state: next === counts ? state : { ...state, counts: { ...state.counts, [window.periodMs]: next } } };
}

interface Take {
  cost: number;
  at: number;
}

export function isBucket(rule: Rule): rule is TokenBucket {
  return "burst" in rule;
}

export function levelOf(state: State, bucket: TokenBucket): Level {
  return state.levels?.[bucket.periodMs] ?? full(bucket);
}

function grantedIn(state: State, window: Window, marginMs: number): Granted {
  return { window, counts: state.counts[window.periodMs] ?? [], marginMs };
}

/** The first moment from `at` on, after all that was given away, at which every rule has room. */
function firstAfter(state: State, rules: readonly Rule[], { cost, at: from }: Take, marginMs: number): number {
  let at = from;
  for (let before = -1; before !== at; ) {
    before = at;
    for (const rule of rules) {
      at = isBucket(rule) ? earliestIn(rule, levelOf(state, rule), { cost, at }) : earliest(grantedIn(state, rule, marginMs), { cost, at });
    }
    at = spaced(state.narrowing, at);
    for (const { count, until } of state.lefts ?? []) if (at < until && count < cost) at = until;
  }
  return at;
}

/** True when `cost` more at `at` fits before moments that were given away already. */
function fitsBetween(state: State, rules: readonly Rule[], take: Take, marginMs: number): boolean {
  if (spaced(state.narrowing, take.at) > take.at) return false;
  if (state.lefts?.some(({ count, until }) => take.at < until && count < take.cost)) return false;
  return rules.every((rule) =>
    isBucket(rule) ? earliestIn(rule, levelOf(state, rule), take) === take.at : fits(grantedIn(state, rule, marginMs), take),
  );
}

function granted(state: State, rules: readonly Rule[], take: Take, marginMs: number, now: number): State {
  const counts = { ...state.counts };
  const levels = { ...state.levels };
  for (const rule of rules) {
    if (isBucket(rule)) levels[rule.periodMs] = taken(rule, levelOf(state, rule), take);
    else counts[rule.periodMs] = counted(grantedIn(state, rule, marginMs), take, now);
  }
  const { lefts } = state;
  return {
    ...state,
    lastAt: Math.max(take.at, state.lastAt),
    counts,
    levels,
    narrowing: spacing(state.narrowing, take, fastestRate(rules)),
    ahead: aheadOf(state.ahead, take, now),
    ...(lefts && { lefts: lefts.map((one) => (take.at < one.until ? { ...one, count: one.count - take.cost } : one)) }),
  };
}

/** The state without a take that was not used. What spaces it, and what the upstream said, stays as it is. */
function without(state: State, rules: readonly Rule[], take: Take, marginMs: number, now: number): State {
  const counts = { ...state.counts };
  const levels = { ...state.levels };
  for (const rule of rules) {
    if (isBucket(rule)) levels[rule.periodMs] = returned(rule, levelOf(state, rule), take);
    else counts[rule.periodMs] = counted(grantedIn(state, rule, marginMs), { ...take, cost: -take.cost }, now);
  }
  return { ...state, counts, levels };
}

/** The state without the moments whose owners ask again before they use them. */
function revoked(state: State, now: number): State {
  const cutAt = now + ASK_AGAIN_MS;
  if (state.lastAt <= cutAt) return state;
  const counts = Object.entries(state.counts).map(([period, one]) => [period, cutCounts(one, Number(period), cutAt)]);
  const levels = Object.entries(state.levels ?? {}).map(([period, one]) => [period, cutLevel(one, cutAt)]);
  const revision = (state.revision ?? 0) + 1;
  const lineUntil = Math.max(state.lineUntil ?? 0, state.lastAt + LINE_GRACE_MS);
  const ahead = Object.fromEntries(Object.entries(state.ahead ?? {}).filter(([part]) => Number(part) * PART_MS <= cutAt));
  return { ...state, lastAt: cutAt, counts: Object.fromEntries(counts), levels: Object.fromEntries(levels), ahead, revision, lineUntil };
}

/** What all rules together let go for long, per millisecond. */
export function slowestRate(rules: readonly Rule[]): number {
  return Math.min(...rules.map(rateOf));
}

/** What the fastest rule lets go for long, per millisecond. */
function fastestRate(rules: readonly Rule[]): number {
  return Math.max(...rules.map(rateOf));
}

/** Per millisecond. */
function rateOf(rule: Rule): number {
  return (isBucket(rule) ? rule.refill : rule.limit) / rule.periodMs;
}
