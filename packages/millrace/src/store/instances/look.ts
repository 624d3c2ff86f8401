import { KEEPER_PATIENCE_MS } from "../../contract/patience.ts";
import { among, fragment, now, type Statement, sql } from "../../contract/sql.ts";
import { BEGUN, FAILED, GOING_ON, UNDER_WAY, UNSEEN, WORKING } from "./status.ts";

/** The time of an instance's next check by the keeper, and the results of the present check. */
export interface Looked {
  id: string;
  /** The due time of the present check: a request for a later check keeps its own due time. */
  check_at: number;
  /** The due time of the next check; null when the keeper needs a new cause to check the instance. */
  pauseMs: number | null;
  seen: boolean;
  /** True when the platform reports that the instance sleeps or waits. */
  hibernates: boolean;
}

/** Returns one row if the database contains any instance. */
export const anyInstance: Statement = sql`SELECT 1 FROM millrace_instances LIMIT 1`;

/** Records the keeper's checks of instances: each check writes one row and one entry in the index of due checks. */
export function noteLooked(looked: readonly Looked[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + (l.value->>'pauseMs'), seen = max(seen, l.value->>'seen'),
      status = iif(l.value->>'hibernates' AND status IN ${WORKING}, 'waiting', status),
      updated_at = iif(l.value->>'hibernates' AND status IN ${WORKING}, ${now}, updated_at)
    FROM json_each(${JSON.stringify(looked)}) l
    WHERE millrace_instances.id = l.value->>'id' AND check_at = l.value->>'check_at'`;
}

/**
 * Makes the keeper check instances again that were marked dead or held. This is a separate statement, because the case is rare and a
 * changed check time costs one written row more.
 */
export function watchAgain(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}, held_by = NULL
    WHERE status IN ${UNSEEN} AND (check_at IS NULL OR held_by IS NOT NULL) AND id IN ${among(ids)}`;
}

/**
 * Makes the checks of all watched instances due, also of sleeping ones. The statement reads and writes a row for each instance, so only
 * local engines use it.
 */
export function lookAtAll(): Statement {
  return sql`UPDATE millrace_instances SET check_at = ${now} WHERE seen = 1 AND check_at > ${now}`;
}

/** Makes the checks of started instances without a recorded step due. */
export function lookNow(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now}
    WHERE id IN ${among(ids)} AND status IN ${UNSEEN} AND check_at > ${now} + ${KEEPER_PATIENCE_MS}`;
}

/** Makes an instance's check due soon after the decision of an approval, in case the decision cannot reach the instance now. */
export function lookAfterAnswer(tenantId: string, instanceId: string): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${instanceId} AND tenant_id = ${tenantId} AND status IN ${BEGUN} AND status IN ${GOING_ON}
      AND check_at > ${now} + ${KEEPER_PATIENCE_MS}`;
}

/** Makes the checks of instances due soon after events were assigned to their waits, in case the events cannot reach them now. */
export function lookAfterEvents(signalIds: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE check_at > ${now} + ${KEEPER_PATIENCE_MS}
      AND id IN (SELECT instance_id FROM millrace_waits WHERE signal_id IN ${among(signalIds)})`;
}

/** Makes the checks of instances in progress due that have no check time. */
export function watchLost(ids: readonly string[]): Statement {
  return sql`UPDATE millrace_instances SET check_at = ${now} WHERE id IN ${among(ids)} AND status IN ${UNDER_WAY} AND check_at IS NULL`;
}

/** Makes the checks of instances due that are in progress or failed. */
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

/** The number of the keeper's restarts of an instance's present run after infrastructure errors of the platform. */
export const timesBrokenOff = fragment("iif(broken_off->>0 = run, broken_off->>1, 0)");

/**
 * Counts one more restart of each run after an infrastructure error. The delay before the keeper's next check doubles each time, from 10 s
 * to an hour.
 */
export function noteRestarted(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET broken_off = json_array(run, ${timesBrokenOff} + 1),
      check_at = max(check_at, ${now} + min(${HOUR_MS}, ${KEEPER_PATIENCE_MS} * (1 << ${timesBrokenOff})))
    WHERE id IN ${among(ids)}`;
}

const HOUR_MS = 3_600_000;
