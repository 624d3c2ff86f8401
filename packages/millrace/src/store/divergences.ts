import { fragment, now, type Statement, sql } from "../contract/sql.ts";

/**
 * suspected → open      seen again: it is no work in flight
 * suspected → mending   seen again, and mended
 * mending → mended      a later look does not find it
 * mending → open        it is there still
 * open → gone, mended   a later look does not find it; `mended` where that was tried
 * gone, mended → suspected   it is there again
 */
export type DivergenceState = "suspected" | "mending" | "open" | "mended" | "gone";

/** A disagreement as a check has found it. */
export interface Sighting {
  readonly kind: string;
  readonly what: string;
  readonly tenantId: string | null;
  readonly foundBy: string;
  readonly place: string;
  readonly detail: string;
  /** So many of its kind are known that a new one is left out. */
  readonly isOneTooMany: boolean;
}

/** Which one it is. */
export interface DivergenceKey {
  readonly kind: string;
  readonly what: string;
}

/** What is in flight has arrived by then, or the keeper has found it. */
const CONFIRM_MS = 120_000;
/** The pause between two looks at one that stays. */
const LOOK_MS = 3_600_000;

const IS_DUE = fragment(`(millrace_divergences.look_at IS NULL OR millrace_divergences.look_at <= ${now.fragment})`);

/**
 * Writes down what was found: a new one is suspected, one whose next look is due is confirmed. One that was seen a moment ago stays as it
 * is. Answers those that are confirmed.
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
      mends = iif(millrace_divergences.look_at IS NULL, 0, millrace_divergences.mends),
      look_at = ${now} + iif(millrace_divergences.look_at IS NULL, ${CONFIRM_MS}, ${LOOK_MS}), ended_at = NULL,
      found_by = excluded.found_by, place = excluded.place, says = excluded.says, seen_at = excluded.seen_at
    WHERE ${IS_DUE}
    RETURNING kind, what, state, mends`;
}

/** These were mended just now: a look shows soon whether that holds. One that was mended before and is here again stays open. */
export function noteMended(mended: readonly DivergenceKey[]): Statement {
  return sql`
    UPDATE millrace_divergences SET mends = mends + 1, state = iif(mends = 0, 'mending', state), look_at = iif(mends = 0,
      ${now} + ${CONFIRM_MS}, look_at)
    FROM json_each(${JSON.stringify(mended)}) m
    WHERE millrace_divergences.kind = m.value->>'kind' AND millrace_divergences.what = m.value->>'what'
      AND millrace_divergences.state = 'open'`;
}

/** Forgets suspicions that a second look does not confirm. */
export function dropSuspicions(unseen: readonly DivergenceKey[]): Statement {
  return sql`
    DELETE FROM millrace_divergences
    WHERE (kind, what) IN (SELECT value->>'kind', value->>'what' FROM json_each(${JSON.stringify(unseen)})) AND state = 'suspected'`;
}

/** These are no longer so. */
export function noteGone(unseen: readonly DivergenceKey[]): Statement {
  return sql`
    UPDATE millrace_divergences SET state = iif(mends > 0, 'mended', 'gone'), look_at = NULL, ended_at = ${now}
    FROM json_each(${JSON.stringify(unseen)}) u
    WHERE millrace_divergences.kind = u.value->>'kind' AND millrace_divergences.what = u.value->>'what'
      AND millrace_divergences.state IN ('mending', 'open')`;
}

/** Puts a look off that could not be made: the check failed, or is not deployed any more. */
export function putLookOff(keys: readonly DivergenceKey[]): Statement {
  return sql`
    UPDATE millrace_divergences SET look_at = ${now} + ${LOOK_MS}
    FROM json_each(${JSON.stringify(keys)}) k
    WHERE millrace_divergences.kind = k.value->>'kind' AND millrace_divergences.what = k.value->>'what'
      AND millrace_divergences.look_at IS NOT NULL`;
}

/** Those whose next look is due, the longest overdue first. */
export function selectDueLooks(limit: number): Statement {
  return sql`
    SELECT kind, what, found_by AS "foundBy", place, state FROM millrace_divergences
    WHERE look_at <= ${now} ORDER BY look_at LIMIT ${limit}`;
}

/** How many of each kind are open, counted up to a limit. */
export function countOpen(limit: number): Statement {
  return sql`
    SELECT kind, count(*) AS value FROM (SELECT kind FROM millrace_divergences WHERE state = 'open' LIMIT ${limit}) GROUP BY kind`;
}

/** How many of a kind are watched, counted up to a limit. */
export function countWatched(kinds: readonly string[], limit: number): Statement {
  return sql`
    SELECT k.value AS kind, (
      SELECT count(*) FROM (SELECT 1 FROM millrace_divergences d WHERE d.kind = k.value AND d.look_at IS NOT NULL LIMIT ${limit})) AS count
    FROM json_each(${JSON.stringify(kinds)}) k`;
}

/** Removes what is over for so long. Answers a row for each. */
export function removeEnded(keepMs: number, limit: number): Statement {
  return sql`
    DELETE FROM millrace_divergences WHERE (kind, what) IN (
      SELECT kind, what FROM millrace_divergences
        WHERE state IN ('mended', 'gone') AND first_at <= ${now} - ${keepMs} AND ended_at <= ${now} - ${keepMs}
      LIMIT ${limit})
    RETURNING 1 AS gone`;
}
