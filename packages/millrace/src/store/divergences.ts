import { fragment, now, type Statement, sql } from "../contract/sql.ts";

/**
 * suspected → open          a second check found the divergence, which therefore is not work in progress
 * suspected → repairing       a second check found the divergence, and a repair was tried
 * repairing → repaired          a later check did not find the divergence
 * repairing → open            a later check found the divergence
 * open → gone, repaired       a later check did not find the divergence (`repaired` if a repair was tried)
 * gone, repaired → suspected  a later check found the divergence again
 */
export type DivergenceState = "suspected" | "repairing" | "open" | "repaired" | "gone";

/** A divergence that a check has found. */
export interface Sighting {
  readonly kind: string;
  readonly what: string;
  readonly tenantId: string | null;
  readonly foundBy: string;
  readonly place: string;
  readonly detail: string;
  /** True if the maximum number of examples of this kind is recorded, so that a new divergence of the kind is not stored. */
  readonly isOneTooMany: boolean;
}

export interface DivergenceKey {
  readonly kind: string;
  readonly what: string;
}

/**
 * The delay before a suspected divergence is checked again, in milliseconds. After this delay, work that was in progress is complete, or
 * the keeper has handled this work.
 */
const CONFIRM_MS = 120_000;
/** The interval between checks of an open divergence. */
const LOOK_MS = 3_600_000;

const IS_DUE = fragment(`(millrace_divergences.look_at IS NULL OR millrace_divergences.look_at <= ${now.fragment})`);

/**
 * Records divergences that a check has found. A new divergence is suspected. A known divergence is confirmed if it is due for a check, and
 * otherwise remains unchanged. The statement returns the confirmed divergences.
 */
export function noteSeen(sightings: readonly Sighting[]): Statement {
  return sql`
    INSERT INTO millrace_divergences (kind, what, tenant_id, found_by, place, says, state, first_at, seen_at, look_at)
    SELECT value->>'kind', value->>'what', value->>'tenantId', value->>'foundBy', value->>'place', value->>'detail', 'suspected',
      ${now}, ${now}, ${now} + ${CONFIRM_MS}
    FROM json_each(${JSON.stringify(sightings)})
    WHERE NOT value->>'isOneTooMany'
      OR EXISTS (SELECT 1 FROM millrace_divergences d WHERE d.kind = value->>'kind' AND d.what = value->>'what')
    ON CONFLICT (kind, what) DO UPDATE SET
      state = iif(millrace_divergences.look_at IS NULL, 'suspected', 'open'),
      first_at = iif(millrace_divergences.look_at IS NULL, excluded.first_at, millrace_divergences.first_at),
      times = iif(millrace_divergences.look_at IS NULL, 1, millrace_divergences.times + 1),
      repairs = iif(millrace_divergences.look_at IS NULL, 0, millrace_divergences.repairs),
      look_at = ${now} + iif(millrace_divergences.look_at IS NULL, ${CONFIRM_MS}, ${LOOK_MS}), ended_at = NULL,
      found_by = excluded.found_by, place = excluded.place, says = excluded.says, seen_at = excluded.seen_at
    WHERE ${IS_DUE}
    RETURNING kind, what, state, repairs`;
}

/**
 * Records repairs of divergences, each of which is checked again soon. A divergence that is found again after an earlier repair stays open.
 */
export function noteRepaired(repaired: readonly DivergenceKey[]): Statement {
  return sql`
    UPDATE millrace_divergences SET repairs = repairs + 1, state = iif(repairs = 0, 'repairing', state), look_at = iif(repairs = 0,
      ${now} + ${CONFIRM_MS}, look_at)
    FROM json_each(${JSON.stringify(repaired)}) m
    WHERE millrace_divergences.kind = m.value->>'kind' AND millrace_divergences.what = m.value->>'what'
      AND millrace_divergences.state = 'open'`;
}

/** Removes suspected divergences that a second check does not confirm. */
export function dropSuspicions(unseen: readonly DivergenceKey[]): Statement {
  return sql`
    DELETE FROM millrace_divergences
    WHERE (kind, what) IN (SELECT value->>'kind', value->>'what' FROM json_each(${JSON.stringify(unseen)})) AND state = 'suspected'`;
}

/** Ends divergences that a check does not find any more. */
export function noteGone(unseen: readonly DivergenceKey[]): Statement {
  return sql`
    UPDATE millrace_divergences SET state = iif(repairs > 0, 'repaired', 'gone'), look_at = NULL, ended_at = ${now}
    FROM json_each(${JSON.stringify(unseen)}) u
    WHERE millrace_divergences.kind = u.value->>'kind' AND millrace_divergences.what = u.value->>'what'
      AND millrace_divergences.state IN ('repairing', 'open')`;
}

/** Delays the check of divergences after the check failed, or when the deployment no longer has the check. */
export function putLookOff(keys: readonly DivergenceKey[]): Statement {
  return sql`
    UPDATE millrace_divergences SET look_at = ${now} + ${LOOK_MS}
    FROM json_each(${JSON.stringify(keys)}) k
    WHERE millrace_divergences.kind = k.value->>'kind' AND millrace_divergences.what = k.value->>'what'
      AND millrace_divergences.look_at IS NOT NULL`;
}

/** Selects divergences due for a check, the longest overdue first. */
export function selectDueLooks(limit: number): Statement {
  return sql`
    SELECT kind, what, found_by AS "foundBy", place, state FROM millrace_divergences
    WHERE look_at <= ${now} ORDER BY look_at LIMIT ${limit}`;
}

/** Counts open divergences by kind, up to a limit. */
export function countOpen(limit: number): Statement {
  return sql`
    SELECT kind, count(*) AS value FROM (SELECT kind FROM millrace_divergences WHERE state = 'open' LIMIT ${limit}) GROUP BY kind`;
}

/** Counts recorded examples of divergences by kind, up to a limit. */
export function countWatched(kinds: readonly string[], limit: number): Statement {
  return sql`
    SELECT k.value AS kind, (
      SELECT count(*) FROM (SELECT 1 FROM millrace_divergences d WHERE d.kind = k.value AND d.look_at IS NOT NULL LIMIT ${limit})) AS count
    FROM json_each(${JSON.stringify(kinds)}) k`;
}

/** Removes divergences that ended long ago. The statement returns a row for each removed row. */
export function removeEnded(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_divergences WHERE (kind, what) IN (
      SELECT kind, what FROM millrace_divergences
        WHERE state IN ('repaired', 'gone') AND first_at <= ${now} - ${keepMs} AND ended_at <= ${now} - ${keepMs}
      LIMIT ${limit})
    RETURNING 1 AS gone`;
}
