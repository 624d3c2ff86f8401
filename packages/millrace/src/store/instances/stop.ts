import { fragment, now, type Statement, sql } from "../../contract/sql.ts";
import { KEEPER_PATIENCE_MS } from "../../contract/within.ts";
import { hasDoubt } from "../inbox/read.ts";
import { leftWith, type NextRun } from "./run.ts";
import { AWAKE, DUE_AFTER_CANCEL, GOING_ON, RETRYABLE, UNDER_WAY, WAITS_FOR_SLOT } from "./status.ts";

/**
 * Cancels an instance in progress. The next run undoes the effects of the earlier runs. An instance with an unknown outcome remains in
 * doubt, because only an operator resolves an unknown outcome.
 */
export function beginCancel({ id, tenantId, run }: Omit<NextRun, "left">, actionId: string): Statement {
  return sql`
    UPDATE millrace_instances SET status = ${AWAKE}, run = ${run}, error = NULL, undo = ${actionId}, updated_at = ${now},
      due_at = ${DUE_AFTER_CANCEL}, check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status IN ${UNDER_WAY} AND undo IS NULL AND run < ${run}`;
}

/** Stops an instance in progress without an undo. Only a retry starts the instance again. */
export function markStopped({ id, tenantId, run }: Omit<NextRun, "left">): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'terminated', run = ${run}, error = NULL, due_at = ${DUE_AFTER_CANCEL}, updated_at = ${now},
      check_at = NULL
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status IN ${UNDER_WAY} AND undo IS NULL AND run < ${run}`;
}

/** The instance of an operator's action, and the number of the instance's run when the action read it. */
interface Seen {
  readonly id: string;
  readonly tenantId: string;
  readonly run: number;
}

/**
 * Pauses an instance, so that none of its further steps starts. The keeper checks a paused instance as often as a waiting instance. An
 * instance that waits for a slot is not changed, because a resume would start it.
 */
export function markPaused({ id, tenantId }: Omit<Seen, "run">): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'paused', updated_at = ${now}, check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status IN ${GOING_ON} AND undo IS NULL
      AND NOT ${WAITS_FOR_SLOT}`;
}

/** The status that a resumed instance gets. The keeper starts a resumed instance that has no recorded step. */
const RESUMED = fragment(`CASE
      WHEN EXISTS (SELECT 1 FROM millrace_inbox
        WHERE millrace_inbox.instance_id = millrace_instances.id AND millrace_inbox.state = 'in_doubt') THEN 'in_doubt'
      WHEN EXISTS (SELECT 1 FROM millrace_waits
        WHERE millrace_waits.instance_id = millrace_instances.id AND signal_id IS NULL AND over_at IS NULL)
        OR EXISTS (SELECT 1 FROM millrace_approvals
          WHERE millrace_approvals.instance_id = millrace_instances.id AND state = 'pending') THEN 'waiting'
      WHEN EXISTS (SELECT 1 FROM millrace_inbox WHERE millrace_inbox.instance_id = millrace_instances.id) THEN 'running'
      ELSE 'accepted' END`);

/**
 * Resumes a paused instance, unless the instance is paused for its own restart. The keeper checks the instance soon, because notifying the
 * platform may fail now.
 */
export function markResumed({ id, tenantId }: Omit<Seen, "run">): Statement {
  return sql`
    UPDATE millrace_instances SET status = ${RESUMED}, due_at = min(due_at, ${now}), slot_turn = min(slot_turn, ${now}),
      updated_at = ${now}, check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status = 'paused' AND NOT ${IS_BEING_RESTARTED}`;
}

/**
 * Restarts an instance from the beginning of its code, and its records remain. The instance is paused until the platform has ended the
 * previous run, so that no two runs overlap. The instance cannot be restarted again until the platform has ended the previous run.
 */
export function beginRestart({ id, tenantId, run, left }: NextRun): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'paused', run = ${run}, error = NULL, caught = ${leftWith(sql`${left}`)}, updated_at = ${now},
      check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND (status IN ${GOING_ON} OR status = 'paused' OR status IN ${RETRYABLE})
      AND undo IS NULL AND run < ${run} AND NOT ${IS_BEING_RESTARTED}`;
}

/** Starts the next run of a restarted instance, because the platform has ended the previous run. */
export function markRestarted(id: string, run: number): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'running', updated_at = ${now}
    WHERE id = ${id} AND run = ${run} AND status = 'paused'`;
}

/**
 * Closes an instance finally. A closed instance cannot be retried, so an instance with an unknown outcome is not closed. An instance with
 * the status `in_doubt` but without an unknown outcome is closed too, because no answer could continue it.
 */
export function markClosed({ id, tenantId, run }: Seen): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'skipped', run = ${run + 1}, updated_at = ${now}, check_at = NULL
    WHERE id = ${id} AND tenant_id = ${tenantId} AND run = ${run}
      AND (status IN ${RETRYABLE} OR status = 'in_doubt') AND NOT ${hasDoubt(id)}`;
}

/**
 * The condition that an instance is paused only because of its restart. The restart's action is open, and the platform has not ended the
 * previous run.
 */
export const IS_BEING_RESTARTED = fragment(`(millrace_instances.status = 'paused' AND EXISTS (SELECT 1 FROM millrace_actions
      WHERE millrace_actions.instance_id = millrace_instances.id AND millrace_actions.applied_at IS NULL
        AND millrace_actions.verb = 'restart'
        AND millrace_actions.detail->>'run' = millrace_instances.run))`);
