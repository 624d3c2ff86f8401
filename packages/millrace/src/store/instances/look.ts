import { KEEPER_PATIENCE_MS } from "../../contract/patience.ts";
import { among, fragment, now, type Statement, sql } from "../../contract/sql.ts";
import { BEGUN, FAILED, GOING_ON, UNDER_WAY, UNSEEN, WORKING } from "./status.ts";

/** When an instance is looked at next, and what this look has found out about it. */
export interface Looked {
  id: string;
  /** The due time that the look went by: an instance that somebody has asked for since keeps its new one. */
  check_at: number;
  /** Null: never, unless something happens to it. */
  pauseMs: number | null;
  seen: boolean;
  /** The platform says that it sleeps, or waits. */
  hibernates: boolean;
}

/** One row where the database has an instance, in any status. */
export const anyInstance: Statement = sql`SELECT 1 FROM millrace_instances LIMIT 1`;

/** Writes down that instances were looked at: one row each, and its place in the keeper's line. */
export function noteLooked(looked: readonly Looked[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + (l.value->>'pauseMs'), seen = max(seen, l.value->>'seen'),
      status = iif(l.value->>'hibernates' AND status IN ${WORKING}, 'waiting', status),
      updated_at = iif(l.value->>'hibernates' AND status IN ${WORKING}, ${now}, updated_at)
    FROM json_each(${JSON.stringify(looked)}) l
    WHERE millrace_instances.id = l.value->>'id' AND check_at = l.value->>'check_at'`;
}

/**
 * What was believed dead is looked at by the keeper again. A statement of its own, because it is rare: a changed time of the next look is
 * one written row more, and every repeat would pay for it.
 */
export function watchAgain(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE status = 'queued' AND check_at IS NULL AND id IN ${among(ids)}`;
}

/** The keeper looks now at all that it watches, also at what was to be left asleep. Reads and writes a row for each: for local engines. */
export function lookAtAll(): Statement {
  return sql`UPDATE millrace_instances SET check_at = ${now} WHERE seen = 1 AND check_at > ${now}`;
}

/** The keeper looks now at instances that were started, and of which no step was recorded since. */
export function lookNow(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now}
    WHERE id IN ${among(ids)} AND status IN ${UNSEEN} AND check_at > ${now} + ${KEEPER_PATIENCE_MS}`;
}

/** The keeper looks soon at an instance whose question was answered, in case it cannot be told now. */
export function lookAfterAnswer(tenantId: string, instanceId: string): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${instanceId} AND tenant_id = ${tenantId} AND status IN ${BEGUN} AND status IN ${GOING_ON}
      AND check_at > ${now} + ${KEEPER_PATIENCE_MS}`;
}

/** The keeper looks soon at instances whose waits hold these events, in case they cannot be told now. */
export function lookAfterEvents(signalIds: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE check_at > ${now} + ${KEEPER_PATIENCE_MS}
      AND id IN (SELECT instance_id FROM millrace_waits WHERE signal_id IN ${among(signalIds)})`;
}

/** The keeper looks now at instances under way that fell out of its line. */
export function watchLost(ids: readonly string[]): Statement {
  return sql`UPDATE millrace_instances SET check_at = ${now} WHERE id IN ${among(ids)} AND status IN ${UNDER_WAY} AND check_at IS NULL`;
}

/** The keeper looks now at instances that are under way, or over by what the machine believes, and that it has left alone. */
export function lookAgain(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now}, seen = 1
    WHERE id IN ${among(ids)} AND (status IN ${UNDER_WAY} OR status IN ${FAILED}) AND (check_at IS NULL OR check_at > ${now})`;
}

/** The platform ended a replay of the instance: the keeper checks it in 10 s. An instance that is due within a minute costs no write. */
export function lookSoon(id: string): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}, seen = 1
    WHERE id = ${id} AND status IN ${UNDER_WAY} AND check_at > ${now} + ${MINUTE_MS}`;
}

const MINUTE_MS = 60_000;

/** The keeper's restarts of an instance's present run after errors of the platform itself. */
export const timesBrokenOff = fragment("iif(broken_off->>0 = run, broken_off->>1, 0)");

/** Counts one more such restart of each run. The pause before the keeper's next check doubles each time, from 10 s to an hour. */
export function noteRestarted(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET broken_off = json_array(run, ${timesBrokenOff} + 1),
      check_at = max(check_at, ${now} + min(${HOUR_MS}, ${KEEPER_PATIENCE_MS} * (1 << ${timesBrokenOff})))
    WHERE id IN ${among(ids)}`;
}

const HOUR_MS = 3_600_000;
