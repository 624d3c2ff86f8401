import { among, now, type Statement, sql } from "../../contract/sql.ts";
import { OVER, type StatusSet } from "./status.ts";

/** Which instances retention is about: of these statuses, and moved by nobody for so long. */
export interface Old {
  readonly statuses: StatusSet;
  readonly keepMs: number;
}

/**
 * The condition that an instance has long ended, and nobody is about to move it. One with an action that the platform has not heard of yet,
 * or with an effect that nobody knows the outcome of, has not.
 */
export function isOver({ statuses, keepMs }: Old): Statement {
  return sql`(
    status IN ${among(statuses.values)} AND updated_at <= ${now} - ${keepMs}
    AND NOT EXISTS (SELECT 1 FROM millrace_actions
      WHERE millrace_actions.applied_at IS NULL AND millrace_actions.instance_id = millrace_instances.id)
    AND NOT EXISTS (SELECT 1 FROM millrace_inbox
      WHERE millrace_inbox.instance_id = millrace_instances.id AND millrace_inbox.state = 'in_doubt'))`;
}

/** Removes those that are still over: an operator may have moved one since it was looked at. Answers their ids. */
export function removeOver(ids: readonly string[], old: Old): Statement {
  return sql`DELETE FROM millrace_instances WHERE id IN ${among(ids)} AND ${isOver(old)} RETURNING id`;
}

/** The condition that a row belongs to one of these instances, and that it is gone. */
export function ofGone(ids: readonly string[]): Statement {
  return sql`instance_id IN ${among(ids)} AND NOT EXISTS (SELECT 1 FROM millrace_instances WHERE millrace_instances.id = instance_id)`;
}

/** The condition that an instance is a tenant's, under way, and not this one. */
export function isOpenOf(tenantId: string, except: string): Statement {
  return sql`tenant_id = ${tenantId} AND id <> ${except} AND status NOT IN ${OVER}`;
}

/** Ends instances of a tenant that is deleted, as far as they are under way: nobody starts or retries them again, or is called. */
export function terminateInstances(ids: readonly string[], tenantId: string, except: string): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'terminated', callback = NULL, check_at = NULL, run = run + 1, updated_at = ${now}
    WHERE id IN ${among(ids)} AND +tenant_id = ${tenantId} AND id <> ${except} AND status NOT IN ${OVER}`;
}

/** Removes instances of a tenant that is deleted, behind what belongs to them. */
export function deleteInstances(ids: readonly string[], tenantId: string): Statement {
  return sql`DELETE FROM millrace_instances WHERE id IN ${among(ids)} AND +tenant_id = ${tenantId}`;
}

/** Changes nothing of an instance: an audit behind it is of an action that was carried out there. */
export function touchInstance(id: string, tenantId: string): Statement {
  return sql`UPDATE millrace_instances SET updated_at = updated_at WHERE id = ${id} AND tenant_id = ${tenantId}`;
}
