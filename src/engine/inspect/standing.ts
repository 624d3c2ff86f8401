import type { Failure } from "../pass/failure.ts";
import { labelOf } from "../pass/history.ts";
import type { InstanceStatus } from "../store/instances/status.ts";
import { inItsWords, type StepRecord } from "./history.ts";

/** A step whose last attempt failed, and that is tried again. */
export interface Retrying {
  step: string;
  /** The attempt that failed, 1-based. */
  attempt: number;
  /** Milliseconds since the epoch; null where only the platform knows. */
  nextAt: number | null;
  /** What it failed of. */
  error: string;
}

/** A step that only time ends. Both null where only the platform knows which one, and until when. */
export interface Sleeping {
  step: string | null;
  until: number | null;
}

/** What an instance under way does while nothing of it runs, beside what it waits for. */
export interface Standing {
  retrying: Retrying | null;
  sleeping: Sleeping | null;
}

/** The entry that an instance wrote last, as a column of JSON; NULL where it wrote none. */
export interface LastEntry {
  step: string;
  item: string;
  /** Why the attempt failed that holds it; null where none has. */
  failed: Failure | null;
}

/** What the row of an instance says of what it does. */
interface Row {
  readonly status: InstanceStatus;
  readonly undo: string | null;
  readonly waitingFor: readonly unknown[];
}

/**
 * What the database alone says, for lists. It hears of a failed attempt only where its class claims (`lookup`, `once`), and that an instance
 * sleeps once the keeper has asked the platform.
 */
export function standingInDatabase({ status, undo, waitingFor }: Row, last: LastEntry | null): Standing {
  const failed = status === "running" || status === "waiting" ? last?.failed : undefined;
  const retrying = failed && last && { step: labelOf(last.step, last.item), attempt: failed.attempts, nextAt: null, error: failed.message };
  const sleeps = status === "waiting" && undo === null && waitingFor.length === 0 && !retrying;
  return { retrying: retrying ?? null, sleeping: sleeps ? { step: null, until: null } : null };
}

/** What the platform's history says: of several steps the one that goes on first. */
export function standingIn(steps: readonly StepRecord[]): Standing {
  const retrying = steps.flatMap((step) => (step.state === "retrying" ? retryOf(step) : []));
  const sleeping = steps.flatMap(({ state, name, until }) => (state === "sleeping" && until !== null ? [{ step: name, until }] : []));
  return { retrying: first(retrying, ({ nextAt }) => nextAt), sleeping: first(sleeping, ({ until }) => until) };
}

/** When the platform makes the next attempt at a step; null where none is to come. */
export function nextAttemptAt({ state, attempts }: { state: string } & Pick<StepRecord, "attempts">): number | null {
  const last = attempts.at(-1);
  return state === "retrying" && last?.endedAt && last.retryDelayMs !== null ? last.endedAt + last.retryDelayMs : null;
}

function retryOf(step: StepRecord): Retrying[] {
  const last = step.attempts.at(-1);
  if (!last?.error) return [];
  return [{ step: step.name, attempt: last.attempt, nextAt: nextAttemptAt(step), error: inItsWords(last.error.message) }];
}

function first<T>(all: readonly T[], at: (one: T) => number | null): T | null {
  return all.toSorted((one, other) => (at(one) ?? Number.POSITIVE_INFINITY) - (at(other) ?? Number.POSITIVE_INFINITY))[0] ?? null;
}
