import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import { labelOf } from "../contract/step-names.ts";
import type { Failure } from "../pass/failure.ts";
import { type InstanceStatus, ON_ITS_WAY } from "../store/instances/status.ts";
import type { StepRecord } from "./history.ts";
import { IS_WAITING } from "./waiting.ts";

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
  const failed = ON_ITS_WAY.has(status) ? last?.failed : undefined;
  const retrying = failed && last && { step: labelOf(last.step, last.item), attempt: failed.attempts, nextAt: null, error: failed.message };
  const sleeps = status === "waiting" && undo === null && waitingFor.length === 0 && !retrying;
  return { retrying: retrying ?? null, sleeping: sleeps ? { step: null, until: null } : null };
}

/** The same as a condition: the list by what they do has those instances under way of which it says so. */
export const STANDINGS = ["delayed", "retrying", "sleeping", "waiting"] as const;
export type StandingName = (typeof STANDINGS)[number];

const IS_RETRYING = fragment(`(status IN ${ON_ITS_WAY.fragment} AND (
  SELECT iif(state = 'claimed', error, NULL) FROM millrace_inbox
    WHERE instance_id = millrace_instances.id ORDER BY updated_at DESC LIMIT 1) IS NOT NULL)`);

const STANDS: Readonly<Record<StandingName, Statement>> = {
  delayed: sql`AND status = 'accepted' AND due_at > ${now}`,
  retrying: sql`AND ${IS_RETRYING}`,
  sleeping: sql`AND status = 'waiting' AND undo IS NULL AND NOT ${IS_WAITING} AND NOT ${IS_RETRYING}`,
  waiting: sql`AND status IN ${ON_ITS_WAY} AND ${IS_WAITING}`,
};

export function andStands(standing: StandingName | undefined): Statement {
  return standing === undefined ? sql`` : STANDS[standing];
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
  return [{ step: step.name, attempt: last.attempt, nextAt: nextAttemptAt(step), error: last.error.message }];
}

function first<T>(all: readonly T[], at: (one: T) => number | null): T | null {
  return all.toSorted((one, other) => (at(one) ?? Number.POSITIVE_INFINITY) - (at(other) ?? Number.POSITIVE_INFINITY))[0] ?? null;
}
