import { among, fragment, now, type Statement, sql } from "../../contract/sql.ts";
import { KEEPER_PATIENCE_MS } from "../../contract/within.ts";
import { ENTRY_LABEL } from "../inbox/entry.ts";
import { BEGUN, FAILED, GOING_ON, UNDER_WAY, UNSEEN, WORKING } from "./status.ts";

/** The result of the keeper's present check of an instance, and the time until the next check. */
export interface Looked {
  id: string;
  /** The due time of the present check. The next check's time is not written if another request has changed the due time. */
  check_at: number;
  /** The time until the next check, in milliseconds. Null means that the keeper checks the instance only after a new cause. */
  pauseMs: number | null;
  seen: boolean;
  /** True if the platform reports that the instance sleeps or waits. */
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
 * changed check time costs an additional written row.
 */
export function watchAgain(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}, held_by = NULL
    WHERE status IN ${UNSEEN} AND (check_at IS NULL OR held_by IS NOT NULL) AND id IN ${among(ids)}`;
}

/**
 * Makes the checks of all watched instances due, including sleeping instances. The statement reads and writes a row for each instance, so
 * only local engines use it.
 */
export function lookAtAll(): Statement {
  return sql`UPDATE millrace_instances SET check_at = ${now} WHERE seen = 1 AND check_at > ${now}`;
}

/** Makes checks due for instances without a recorded step. */
export function lookNow(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now}
    WHERE id IN ${among(ids)} AND status IN ${UNSEEN} AND check_at > ${now} + ${KEEPER_PATIENCE_MS}`;
}

/** Makes an instance's check due soon after the decision of an approval, because sending the decision to the instance may fail now. */
export function lookAfterAnswer(tenantId: string, instanceId: string): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${instanceId} AND tenant_id = ${tenantId} AND status IN ${BEGUN} AND status IN ${GOING_ON}
      AND check_at > ${now} + ${KEEPER_PATIENCE_MS}`;
}

/**
 * Makes the checks of instances due soon after events were assigned to their waits, because sending an event to its instance may fail now.
 */
export function lookAfterEvents(signalIds: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE check_at > ${now} + ${KEEPER_PATIENCE_MS}
      AND id IN (SELECT instance_id FROM millrace_waits WHERE signal_id IN ${among(signalIds)})`;
}

/** Makes checks due for instances in progress that have no check time. */
export function watchLost(ids: readonly string[]): Statement {
  return sql`UPDATE millrace_instances SET check_at = ${now} WHERE id IN ${among(ids)} AND status IN ${UNDER_WAY} AND check_at IS NULL`;
}

/** Makes checks due for instances that are in progress or failed. */
export function lookAgain(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now}, seen = 1
    WHERE id IN ${among(ids)} AND (status IN ${UNDER_WAY} OR status IN ${FAILED}) AND (check_at IS NULL OR check_at > ${now})`;
}

/**
 * Makes the keeper check an instance in 10 s, because the platform ended a replay of this instance. If the check is due within a minute,
 * nothing is written.
 */
export function lookSoon(id: string): Statement {
  return sql`
    UPDATE millrace_instances SET check_at = ${now} + ${KEEPER_PATIENCE_MS}, seen = 1
    WHERE id = ${id} AND status IN ${UNDER_WAY} AND check_at > ${now} + ${MINUTE_MS}`;
}

/** Makes the keeper check an instance soon that makes no step because the deployed code lacks the instance's version. */
export function lookForVersion(id: string, version: number): Statement {
  return sql`
    UPDATE millrace_instances SET status = iif(status IN ${UNSEEN}, 'running', status), version = ${version},
      seen = 1, check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND status IN ${UNDER_WAY}`;
}

const MINUTE_MS = 60_000;

/** The count of restarts of an instance's present run by the keeper after infrastructure errors of the platform. */
export const timesBrokenOff = fragment("iif(broken_off->>0 = run, broken_off->>1, 0)");

/**
 * Counts one more restart of each run after an infrastructure error. The delay before the keeper's next check doubles with each restart,
 * from 10 s up to an hour.
 */
export function noteRestarted(ids: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET broken_off = json_array(run, ${timesBrokenOff} + 1),
      check_at = max(check_at, ${now} + min(${HOUR_MS}, ${KEEPER_PATIENCE_MS} * (1 << ${timesBrokenOff})))
    WHERE id IN ${among(ids)}`;
}

const HOUR_MS = 3_600_000;

/**
 * Selects the label of each step of an instance that has an entry, a wait or an approval. A row without a label has the instance's
 * acceptance time.
 */
export function selectKnownSteps(id: string): Statement {
  return sql`
    SELECT accepted_at, NULL AS label FROM millrace_instances WHERE id = ${id}
    UNION ALL SELECT NULL, ${ENTRY_LABEL} FROM millrace_inbox WHERE instance_id = ${id}
    UNION ALL SELECT NULL, name FROM millrace_waits WHERE instance_id = ${id}
    UNION ALL SELECT NULL, step FROM millrace_approvals WHERE instance_id = ${id}`;
}

/** Records the steps of a run that a restore of the database has lost. The replays of later runs use the record of the lost steps. */
export function noteLost(id: string, labels: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET lost = (
      SELECT json_group_array(value) FROM (
        SELECT value FROM json_each(coalesce(lost, '[]')) UNION SELECT value FROM json_each(${JSON.stringify(labels)})))
    WHERE id = ${id}`;
}
