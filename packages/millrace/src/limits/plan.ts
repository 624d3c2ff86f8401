import type { LimitName } from "../store/limits.ts";
import {
  cutLevel,
  earliestIn,
  full,
  type Level,
  type Narrowing,
  narrowed,
  returned,
  spaced,
  spacing,
  type TokenBucket,
  taken,
  tokensAt,
} from "./bucket.ts";
import { UNNAMED_PAUSE_MS, type Word } from "./upstream.ts";
import { type Counts, counted, cutCounts, earliest, fits, type Granted, room, type Window } from "./windows.ts";

export type Rule = Window | TokenBucket;

/** The limiter's state. A take writes one row for any number of rules, because the state is one value. */
export interface State {
  /** The time of the latest granted slot. Later requests get later slots, so that callers proceed in the order of their requests. */
  lastAt: number;
  pausedUntil: number;
  /** The rules of the last request, for display. */
  rules?: readonly Rule[];
  /** The counts of the windows, with the period as key, so that a window keeps its counts when its limit is changed. */
  counts: Record<string, Counts>;
  /** The fill levels of the buckets by period. */
  levels?: Record<string, Level>;
  narrowing?: Narrowing | undefined;
  /** The counts of remaining calls that the upstream reported, each with the time until which the count applies. */
  lefts?: readonly { count: number; until: number }[];
  /** The count of permits granted for later, for each part of time. */
  ahead?: Record<string, number>;
  /** The number of times that granted slots were revoked. */
  revision?: number;
  /** The callers with revoked slots request new slots until this time. New callers get later slots. */
  lineUntil?: number;
}

export const NOTHING: State = { lastAt: 0, pausedUntil: 0, counts: {} };

/** A granted slot, with the limiter's revision at the time of the grant. */
export interface Held {
  at: number;
  revision: number;
  /**
   * True if the slot's owner was too late for the slot. Then the slot is returned, and the search for a new slot starts at the present
   * time.
   */
  isLate?: boolean;
}

export interface Ask {
  rules: readonly Rule[];
  /** The number of requested permits. */
  cost: number;
  /** Maximum wait in milliseconds. A slot with a longer wait is not reserved. */
  patienceMs: number;
  /** The margin that lengthens a window's period, in milliseconds. */
  marginMs: number;
  /** The slot that this caller got before. */
  held?: Held | undefined;
  /** The tenant that can read the limit, and the limit's name. */
  seenBy?: LimitName | undefined;
}

/**
 * If `go` is true, the slot at the time `at` is reserved, and `waitMs` is the time until `at`. If `go` is false, no slot is reserved, and
 * no slot is free before `at`.
 */
export interface Answer {
  go: boolean;
  /** Milliseconds since 1970, by the limiter's clock. */
  at: number;
  waitMs: number;
  revision: number;
  /** True if the slot's owner must confirm the slot by a new request at the time of the slot. */
  asksAgain: boolean;
}

/**
 * Returns the count of permits that every rule allows at this moment. The result is 0 while calls are paused, spaced, or reserved for
 * later.
 */
export function remainingOf(state: State, { rules, marginMs }: Pick<Ask, "rules" | "marginMs">, now: number): number {
  if (Math.max(state.pausedUntil, state.lastAt, state.lineUntil ?? 0, spaced(state.narrowing, now)) > now) return 0;
  const rooms = rules.map((rule) =>
    isBucket(rule) ? tokensAt(rule, levelOf(state, rule), now) : room(grantedIn(state, rule, marginMs), now),
  );
  const lefts = (state.lefts ?? []).flatMap(({ count, until }) => (now < until ? count : []));
  return Math.max(0, Math.floor(Math.min(...rooms, ...lefts)));
}

/**
 * A caller that waits longer than this many milliseconds must confirm its slot by a new request, because the slot may have been revoked.
 */
export const ASK_AGAIN_MS = 1_000;
/**
 * Maximum wait that the limiter accepts from an upstream's response, in milliseconds. Therefore a wrong header has an effect for at most an
 * hour.
 */
export const LONGEST_PAUSE_MS = 3_600_000;

/**
 * Grants a slot if the wait for the slot does not exceed the caller's `patienceMs`. Returns the state after the grant, or the same object
 * if nothing changed.
 */
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

/**
 * Tolerance in milliseconds for delays of timers and the network. A waiting caller that repeats its request within this tolerance gets a
 * slot before new callers.
 */
const LINE_GRACE_MS = 100;
/**
 * Interval in milliseconds between the times at which queued new callers repeat their requests. The interval is shorter if the rules allow
 * a higher rate. The interval preserves the order of the callers.
 */
const LINE_STEP_MS = 25;

/**
 * Queues a new caller behind the callers with revoked slots. No slot is reserved for the new caller, which repeats its request after the
 * requests of all those callers.
 */
function lined(before: State, { rules, cost, patienceMs, marginMs }: Ask, now: number): { answer: Answer; state: State } {
  const stepMs = Math.min(LINE_STEP_MS, cost / fastestRate(rules));
  const lineUntil = Math.max(before.lineUntil ?? 0, now) + stepMs;
  const at = Math.max(now, before.pausedUntil, before.lastAt);
  const waitMs = Math.max(lineUntil, firstAfter(before, rules, { cost, at }, marginMs)) - now;
  const revision = (before.revision ?? 0) - 1;
  if (waitMs > patienceMs) return { answer: { go: false, at: now + waitMs, waitMs, revision, asksAgain: false }, state: before };
  return { answer: { go: true, at: lineUntil, waitMs: lineUntil - now, revision, asksAgain: true }, state: { ...before, lineUntil } };
}

/** Returns the state of the limit after a pause of `ms` milliseconds was added. */
export function paused(state: State, ms: number, now: number): State {
  const pausedUntil = now + ms;
  return pausedUntil > state.pausedUntil ? revoked({ ...state, pausedUntil }, now) : state;
}

/**
 * Returns the state after an upstream's response. A refusal pauses the limit and reduces the rate. A low count of remaining calls limits
 * the calls until the quota's reset.
 */
export function heeded(state: State, { refusedForMs, left }: Word, now: number): State {
  if (refusedForMs !== undefined) {
    const waited = paused(state, Math.min(refusedForMs ?? UNNAMED_PAUSE_MS, LONGEST_PAUSE_MS), now);
    return { ...waited, narrowing: narrowed(state.narrowing, now, Math.max(waited.pausedUntil, now)) };
  }
  const lefts = (left ?? []).reduce((known, one) => toldOf(state, known, one, now), state.lefts ?? []);
  return lefts === state.lefts || lefts.length === 0 ? state : revoked({ ...state, lefts }, now);
}

type Lefts = NonNullable<State["lefts"]>;

/**
 * Maximum number of stored remainders, which are counts of remaining calls that an upstream reported. The largest remainders are removed
 * first.
 */
const MOST_RESETS = 8;

/** Adds a reported remainder to the stored remainders. */
function toldOf(state: State, known: Lefts, { count, forMs }: { count: number; forMs: number }, now: number): Lefts {
  const until = now + Math.min(forMs, LONGEST_PAUSE_MS);
  // Responses can arrive out of order. Of several remainders for the same reset, the lowest remainder is the latest.
  if (known.some((one) => one.until > now && one.count <= count && one.until >= until - ASK_AGAIN_MS)) return known;
  // The slots within the next second will still be used, so that these slots reduce the remainder.
  const told = { count: Math.max(0, count - soonGiven(state, now)), until };
  const others = known.filter((one) => one.until > now && !(one.count >= told.count && one.until <= until + ASK_AGAIN_MS));
  return [...others, told].toSorted((one, other) => one.count - other.count).slice(0, MOST_RESETS);
}

/** Returns the count of permits that are granted for the next second and not revoked. */
function soonGiven({ ahead = {} }: State, now: number): number {
  const soon = Object.entries(ahead).filter(([part]) => (Number(part) + 1) * PART_MS > now && Number(part) * PART_MS <= now + ASK_AGAIN_MS);
  return soon.reduce((sum, [, cost]) => sum + cost, 0);
}

/** Returns the count of permits that are granted for a time after now. */
export function waitingAt({ ahead = {} }: State, now: number): number {
  return Object.entries(ahead).reduce((sum, [part, cost]) => (Number(part) * PART_MS > now ? sum + cost : sum), 0);
}

/** Adds a take to the counts of permits granted for later. */
function aheadOf(known: Record<string, number> = {}, { cost, at }: Take, now: number): Record<string, number> {
  const kept = Object.entries(known).filter(([part]) => (Number(part) + 1) * PART_MS > now);
  const part = Math.floor(at / PART_MS);
  return { ...Object.fromEntries(kept), ...(at > now && { [part]: (known[part] ?? 0) + cost }) };
}

/** Length in milliseconds of the parts of time for which permits granted for later are counted. */
const PART_MS = 250;

/** The permits of a window that one request gets, at most as many as requested. */
export interface Lease {
  given: number;
  /** The permits of the window that remain after the lease. */
  left: number;
  /** The milliseconds until a permit is free, if no permit was granted. */
  waitMs: number;
}

/**
 * A request for permits that the isolate will use within `forMs`. `used` is the count of permits that the isolate has already used without
 * a call to the limiter.
 */
export interface LeaseAsk {
  window: Window;
  most: number;
  used: number;
  forMs: number;
}

/** Grants up to `most` permits of a window, for use within `forMs`. */
export function lease(state: State, { window, most, used, forMs }: LeaseAsk, now: number): { answer: Lease; state: State } {
  const of = (counts: Counts): Granted => ({ window, counts, marginMs: forMs });
  const counts = state.counts[window.periodMs] ?? [];
  const known = used > 0 ? counted(of(counts), { cost: used, at: now }, now) : counts;
  const given = Math.max(0, Math.min(most, Math.floor(room(of(known), now))));
  const next = given > 0 ? counted(of(known), { cost: given, at: now }, now) : known;
  const waitMs = given > 0 ? 0 : earliest(of(next), { cost: 1, at: now }) - now;
  const left = Math.max(0, Math.floor(room(of(next), now)));
  return {
    answer: { given, left, waitMs },
    state: next === counts ? state : { ...state, counts: { ...state.counts, [window.periodMs]: next } },
  };
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

/** Returns the earliest time, not before `at` and after all granted slots, at which every rule allows the call. */
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

/** True if `cost` further permits at `at` exceed no rule. The check includes later slots that are already granted. */
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

/** Returns the state without a take that was not used. The spacing and the upstream's remainders are not changed. */
function without(state: State, rules: readonly Rule[], take: Take, marginMs: number, now: number): State {
  const counts = { ...state.counts };
  const levels = { ...state.levels };
  for (const rule of rules) {
    if (isBucket(rule)) levels[rule.periodMs] = returned(rule, levelOf(state, rule), take);
    else counts[rule.periodMs] = counted(grantedIn(state, rule, marginMs), { ...take, cost: -take.cost }, now);
  }
  return { ...state, counts, levels };
}

/** Returns the state without the slots that their owners must confirm before use. */
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

/** The sustained rate that all rules together allow, in permits per millisecond. */
export function slowestRate(rules: readonly Rule[]): number {
  return Math.min(...rules.map(rateOf));
}

/** The sustained rate of the fastest rule, in permits per millisecond. */
function fastestRate(rules: readonly Rule[]): number {
  return Math.max(...rules.map(rateOf));
}

function rateOf(rule: Rule): number {
  return (isBucket(rule) ? rule.refill : rule.limit) / rule.periodMs;
}
