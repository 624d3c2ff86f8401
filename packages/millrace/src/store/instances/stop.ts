import { KEEPER_PATIENCE_MS } from "../../contract/patience.ts";
import { fragment, now, type Statement, sql } from "../../contract/sql.ts";
import { hasDoubt } from "../inbox/read.ts";
import { leftWith } from "./left.ts";
import { IS_BEING_RESTARTED } from "./restarted.ts";
import type { NextRun } from "./run.ts";
import { AWAKE, GOING_ON, RETRYABLE, UNDER_WAY } from "./status.ts";

/**
 * An operator cancels an instance that is under way: the next run takes back what the others did. One that holds a doubt stays in doubt,
 * because only a person's answer ends that.
 */
export function beginCancel({ id, tenantId, run }: Omit<NextRun, "left">, actionId: string): Statement {
  return sql`
    UPDATE millrace_instances SET status = ${AWAKE}, run = ${run}, error = NULL, undo = ${actionId}, updated_at = ${now},
      check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status IN ${UNDER_WAY} AND undo IS NULL AND run < ${run}`;
}

/** An operator stops an instance that is under way, and what it did stays. Nothing starts it again but a retry. */
export function markStopped({ id, tenantId, run }: Omit<NextRun, "left">): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'terminated', run = ${run}, error = NULL, updated_at = ${now}, check_at = NULL
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status IN ${UNDER_WAY} AND undo IS NULL AND run < ${run}`;
}

/** Which instance an operator means, and the run that was looked at. */
interface Seen {
  readonly id: string;
  readonly tenantId: string;
  readonly run: number;
}

/**
 * An operator pauses an instance: from now on no step of it begins. The keeper looks at it as at one that waits. One that has not had its
 * turn in its lane (`inLane`) is left: it is the lane that is paused.
 */
export function markPaused({ id, tenantId }: Omit<Seen, "run">, inLane: boolean): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'paused', updated_at = ${now}, check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status IN ${GOING_ON} AND undo IS NULL AND NOT ${inLane ? 1 : 0}`;
}

/** What a paused instance is again, as if nobody had paused it. One of which nothing was recorded is the keeper's to start. */
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
 * An operator resumes a paused instance, but for one that a restart has paused and resumes: the keeper looks soon, in case the platform
 * cannot be told now.
 */
export function markResumed({ id, tenantId }: Omit<Seen, "run">): Statement {
  return sql`
    UPDATE millrace_instances SET status = ${RESUMED}, updated_at = ${now}, check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND status = 'paused' AND NOT ${IS_BEING_RESTARTED}`;
}

/**
 * An operator has an instance pass through its code from the beginning, with what is recorded: paused until the platform has ended the run
 * before, so that none of its steps begins beside that. While that is so, nothing restarts it once more.
 */
export function beginRestart({ id, tenantId, run, left }: NextRun): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'paused', run = ${run}, error = NULL, caught = ${leftWith(sql`${left}`)}, updated_at = ${now},
      check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${id} AND tenant_id = ${tenantId} AND (status IN ${GOING_ON} OR status = 'paused' OR status IN ${RETRYABLE})
      AND undo IS NULL AND run < ${run} AND NOT ${IS_BEING_RESTARTED}`;
}

/** The run before a restart is over on the platform: the next one begins. */
export function markRestarted(id: string, run: number): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'running', updated_at = ${now}
    WHERE id = ${id} AND run = ${run} AND status = 'paused'`;
}

/**
 * An operator closes an instance for good: nothing retries it, and nobody is expected to, so that none of its effects may be in doubt. One
 * whose row says that it is in doubt is closed too then: no answer would move it on.
 */
export function markClosed({ id, tenantId, run }: Seen): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'skipped', run = ${run + 1}, updated_at = ${now}, check_at = NULL
    WHERE id = ${id} AND tenant_id = ${tenantId} AND run = ${run}
      AND (status IN ${RETRYABLE} OR status = 'in_doubt') AND NOT ${hasDoubt(id)}`;
}
