import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import { labelOf } from "../contract/step-names.ts";
import type { Failure } from "../pass/failure.ts";
import { type InstanceStatus, ON_ITS_WAY } from "../store/instances/status.ts";
import type { StepRecord } from "./history.ts";
import { IS_WAITING } from "./waiting.ts";

export interface Retrying {
  step: string;
  attempt: number;
  /** When the next attempt begins, in milliseconds since the epoch; null if only the platform knows. */
  nextAt: number | null;
  error: string;
}

/** The current sleep. Both fields are null if only the platform knows the step and the end of the sleep. */
export interface Sleeping {
  step: string | null;
  until: number | null;
}

export interface Standing {
  retrying: Retrying | null;
  sleeping: Sleeping | null;
}

/** The newest inbox entry of an instance, as a JSON column; NULL for an instance without an entry. */
export interface LastEntry {
  step: string;
  item: string;
  failed: Failure | null;
}

interface Row {
  readonly status: InstanceStatus;
  readonly undo: string | null;
  readonly waitingFor: readonly unknown[];
}

/**
 * The activity of an instance according to the database alone, for lists. The database records failed attempts only for the classes
 * `lookup` and `once`. The database records a sleep only after the keeper has queried the platform.
 */
export function standingInDatabase({ status, undo, waitingFor }: Row, last: LastEntry | null): Standing {
  const failed = ON_ITS_WAY.has(status) ? last?.failed : undefined;
  const retrying = failed && last && { step: labelOf(last.step, last.item), attempt: failed.attempts, nextAt: null, error: failed.message };
  const sleeps = status === "waiting" && undo === null && waitingFor.length === 0 && !retrying;
  return { retrying: retrying ?? null, sleeping: sleeps ? { step: null, until: null } : null };
}

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

/**
 * The activity of an instance according to the platform's history. If several steps are being retried, the result contains the step that
 * continues first. If several sleeps run, the result contains the sleep that ends first.
 */
export function standingIn(steps: readonly StepRecord[]): Standing {
  const retrying = steps.flatMap((step) => (step.state === "retrying" ? retryOf(step) : []));
  const sleeping = steps.flatMap(({ state, name, until }) => (state === "sleeping" && until !== null ? [{ step: name, until }] : []));
  return { retrying: first(retrying, ({ nextAt }) => nextAt), sleeping: first(sleeping, ({ until }) => until) };
}

/** When the platform begins the next attempt of a step; null if no attempt is due. */
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
