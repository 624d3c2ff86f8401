import { backoffMs } from "../contract/duration.ts";
import type { Plan } from "./definition.ts";
import type { Settled } from "./settlement.ts";

/** A delivery of a message that is still there: how often it was handed out, and when it may be again. */
export type Delivered = [sequence: number, attempts: number, dueAt: number];

/** How far a lane has come, and what it knows of the messages that were handed out and are still there. */
export interface Progress {
  /** Everything before it is done. */
  head: number;
  /** The head's own failures. */
  failures: number;
  /** The head is not handed out before; 0 for at once. Milliseconds since 1970. */
  dueAt: number;
  /** Messages up to this one are handed out one at a time, so that a failure is counted against the one that caused it. */
  aloneTo: number;
  delivered: Delivered[];
  /** What the head's last failure said. */
  error: string | null;
  /** The head has failed for good, and the lane waits for a person. */
  held: boolean;
  /** A person has stopped the lane. */
  paused: boolean;
  /** The head that was handed out by an object which found it there when it woke: were it found again, it may be what killed the object. */
  trying: number;
}

export const BEGINNING: Progress = {
  head: 0,
  failures: 0,
  dueAt: 0,
  aloneTo: 0,
  delivered: [],
  error: null,
  held: false,
  paused: false,
  trying: 0,
};

/** A batch that came back. */
export interface Outcome {
  /** The messages' sequence numbers, without a gap. */
  sequences: readonly number[];
  settled: Settled;
  /** What went wrong; null when nothing threw. */
  error: string | null;
}

export interface Step {
  progress: Progress;
  /** So many messages are done, from the head on. */
  done: number;
  /** The message behind them has failed for good, and becomes a dead letter. */
  parks: boolean;
}

/** What follows from a batch: a prefix of it is done, and the first message that is not has failed, or was there when it failed. */
export function follow(before: Progress, { sequences, settled, error }: Outcome, plan: Plan, now: number, random?: () => number): Step {
  const firstBad = settled.each.findIndex((one) => one !== "ack");
  const done = firstBad === -1 ? sequences.length : firstBad;
  const head = (sequences[0] ?? before.head) + done;
  const handed = sequences.slice(done).map((sequence, at): Delivered => {
    const asked = settled.delayMs[done + at];
    return [sequence, attemptsOf(before, sequence) + 1, settled.each[done + at] === "ack" || asked === undefined ? 0 : now + asked];
  });
  const last = sequences.at(-1) ?? head;
  const delivered = [...handed, ...before.delivered.filter(([sequence]) => sequence > last)];
  const moved = advanced(before, head, delivered);
  if (firstBad === -1) return { progress: moved, done, parks: false };

  // Which of several made a whole batch fail is not known: they are tried one by one, and none is blamed yet.
  const open = settled.each.filter((one) => one === "failed").length;
  const isBlamed = settled.each[done] === "retry" || open === 1;
  const failures = (done > 0 ? 0 : before.failures) + (isBlamed ? 1 : 0);
  const aloneTo = Math.max(moved.aloneTo, isBlamed ? head : last);
  const said = error ?? "The handler asked for another try.";
  const failed = { ...moved, failures, aloneTo, error: said };
  const isExhausted = failures > plan.retries.limit;
  if (isExhausted && plan.onFailure === "park") return { progress: failed, done, parks: true };
  if (isExhausted && plan.onFailure === "hold") return { progress: { ...failed, dueAt: 0, held: true }, done, parks: false };
  const { initialMs, maxMs } = plan.retries;
  const backOffMs = backoffMs(Math.max(1, failures), isExhausted ? maxMs : initialMs, maxMs, random);
  const waitMs = settled.delayMs[done] ?? backOffMs;
  return { progress: { ...failed, dueAt: now + waitMs }, done, parks: false };
}

/** The progress when everything before a message is gone: what was known of the former head is not true of the next. */
export function advanced(before: Progress, head: number, delivered = before.delivered): Progress {
  if (head === before.head) return { ...before, delivered, trying: 0 };
  const kept = delivered.filter(([sequence]) => sequence >= head);
  const dueAt = kept.find(([sequence]) => sequence === head)?.[2] ?? 0;
  return { ...BEGINNING, head, dueAt, aloneTo: before.aloneTo >= head ? before.aloneTo : 0, delivered: kept, paused: before.paused };
}

/** How often a message was handed out. */
export function attemptsOf({ delivered }: Progress, sequence: number): number {
  return delivered.find(([one]) => one === sequence)?.[1] ?? 0;
}

/** When a message may be handed out, were it its turn; 0 for at once. */
export function dueAtOf({ head, dueAt, delivered }: Progress, message: { sequence: number; dueAt: number }): number {
  // What was said of the head last holds: its back-off, or that a person wants it now.
  if (message.sequence === head && dueAt > 0) return dueAt;
  return Math.max(message.dueAt, delivered.find(([sequence]) => sequence === message.sequence)?.[2] ?? 0);
}

/** The progress when a person wants the head tried now, whatever it waits for: it was due long ago. */
export function triedNow(before: Progress): Progress {
  return { ...before, dueAt: 1, held: false };
}
