import type { EntryKey } from "../../contract/ids.ts";
import { fragment, now, type RowStatement, type Statement, sql } from "../../contract/sql.ts";
import { KEEPER_PATIENCE_MS } from "../../contract/within.ts";
import { isEntry } from "../inbox/entry.ts";
import { hasDoubt } from "../inbox/read.ts";
import { GOING_ON, WORKING } from "./status.ts";

/**
 * Marks the instance as waiting, unless its wait already has an event or has timed out. The statement must follow the insert of the wait.
 */
export function waitForEvent(instanceId: string, label: string, version: number): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'waiting', version = ${version}, updated_at = ${now}
    WHERE id = ${instanceId} AND status IN ${WORKING}
      AND EXISTS (SELECT 1 FROM millrace_waits
        WHERE instance_id = ${instanceId} AND name = ${label} AND signal_id IS NULL AND over_at IS NULL)`;
}

/** Marks a parent as waiting for its child. The statement must follow the insert of the wait. */
export function markWaiting(id: string): RowStatement {
  return { text: MARK_WAITING, row: { id } };
}

const MARK_WAITING = `
  UPDATE millrace_instances SET status = 'waiting', updated_at = ${now.fragment}
  WHERE id IN (SELECT value->>'id' FROM json_each(?1)) AND status IN ${WORKING.fragment}`;

/** Marks the instance as waiting while one of its approvals is pending. The statement must follow the insert of the approval. */
export function waitForAnswer(tenantId: string, instanceId: string, version: number): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'waiting', version = ${version}, updated_at = ${now}
    WHERE id = ${instanceId} AND tenant_id = ${tenantId} AND status IN ${WORKING} AND ${UNANSWERED}`;
}

/** Marks the instance as running, unless one of its waits or approvals is still open. */
export function markAnswered(tenantId: string, instanceId: string): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'running', updated_at = ${now}
    WHERE id = ${instanceId} AND tenant_id = ${tenantId} AND status = 'waiting' AND NOT ${UNANSWERED}
      AND NOT EXISTS (SELECT 1 FROM millrace_waits
        WHERE millrace_waits.instance_id = millrace_instances.id AND signal_id IS NULL AND over_at IS NULL)`;
}

const UNANSWERED = fragment(`EXISTS (SELECT 1 FROM millrace_approvals
  WHERE millrace_approvals.instance_id = millrace_instances.id AND state = 'pending')`);

/** Marks the instance as in doubt, if one of its effects has an unknown outcome. */
export function markInDoubt(instanceId: string): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'in_doubt', updated_at = ${now}
    WHERE id = ${instanceId} AND status IN ${GOING_ON} AND ${hasDoubt(instanceId)}`;
}

/** Marks the instance as in doubt, if this effect has an unknown outcome. The statement reads only that entry of the instance. */
export function markDoubted(key: EntryKey): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'in_doubt', updated_at = ${now}
    WHERE id = ${key.instanceId} AND status IN ${GOING_ON} AND EXISTS (SELECT 1 FROM millrace_inbox
      WHERE ${isEntry(key)} AND state = 'in_doubt')`;
}

/** Ends the status "in doubt" of an instance, if none of its effects has an unknown outcome any more. */
export function markResolved(id: string): RowStatement {
  return { text: MARK_RESOLVED, row: { id } };
}

const MARK_RESOLVED = `
  UPDATE millrace_instances SET status = 'running', updated_at = ${now.fragment}
  WHERE id IN (SELECT value->>'id' FROM json_each(?1)) AND status = 'in_doubt'
    AND NOT EXISTS (SELECT 1 FROM millrace_inbox
      WHERE millrace_inbox.instance_id = millrace_instances.id AND millrace_inbox.state = 'in_doubt')`;

/**
 * Ends the status "in doubt" of an instance after an operator's answer, if none of its effects has an unknown outcome any more. The keeper
 * checks the instance soon, because notifying the platform may fail now.
 */
export function resumeResolved(instanceId: string): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'running', updated_at = ${now}, check_at = ${now} + ${KEEPER_PATIENCE_MS}
    WHERE id = ${instanceId} AND status = 'in_doubt' AND NOT ${hasDoubt(instanceId)}`;
}

/** The condition that no step of a run starts, because an operator has paused the instance or begun another run. */
export function isHeld(id: string, run: number): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_instances WHERE id = ${id} AND (status = 'paused' OR run <> ${run}))`;
}
