import { among, now, type Statement, sql } from "../../contract/sql.ts";
import { IS_OWED } from "./callback.ts";
import { OVER, type StatusSet } from "./status.ts";

/** The instances that a retention rule removes: instances with these statuses that have not changed for the given time. */
export interface Old {
  readonly statuses: StatusSet;
  readonly keepMs: number;
  /** The number of the object to which the instances were copied. Without a number, they are removed without a copy. */
  readonly object?: number;
}

/**
 * The condition that an instance ended long ago and needs no further work. It has no open action, no effect with an unknown outcome, and no
 * owed callback. A child is kept as long as its parent, because an undo of the parent undoes the child. A throttled instance is kept for
 * the period in which its start counts.
 */
export function isOver({ statuses, keepMs }: Old): Statement {
  return sql`(
    status IN ${among(statuses.values)} AND updated_at <= ${now} - ${keepMs} AND (${IS_OWED}) IS NOT TRUE
    AND NOT EXISTS (SELECT 1 FROM millrace_actions
      WHERE millrace_actions.applied_at IS NULL AND millrace_actions.instance_id = millrace_instances.id)
    AND NOT EXISTS (SELECT 1 FROM millrace_instances p WHERE p.id = millrace_instances.parent)
    AND (flow->>'throttle' IS NULL OR due_at IS NULL OR due_at + (flow->>'ms') <= ${now})
    AND NOT EXISTS (SELECT 1 FROM millrace_inbox
      WHERE millrace_inbox.instance_id = millrace_instances.id AND millrace_inbox.state = 'in_doubt'))`;
}

/** The condition that the object of an archived instance is still noted. An erasure of the tenant removes the note with the object. */
export function andNoted({ object }: Old): Statement {
  if (object === undefined) return sql``;
  return sql`AND EXISTS (SELECT 1 FROM millrace_tenant_objects o
    WHERE o.tenant_id = millrace_instances.tenant_id AND o.binding = 'ARCHIVE' AND o.name = ${String(object)})`;
}

/**
 * Removes instances that still match the retention rule, because an operator may have reopened an instance after the scan. The statement
 * returns the ids of the removed instances.
 */
export function removeOver(ids: readonly string[], old: Old): Statement {
  return sql`DELETE FROM millrace_instances WHERE id IN ${among(ids)} AND ${isOver(old)} ${andNoted(old)} RETURNING id`;
}

/** The condition that a row belongs to one of the given instances, and that this instance is removed. */
export function ofGone(ids: readonly string[]): Statement {
  return sql`instance_id IN ${among(ids)} AND NOT EXISTS (SELECT 1 FROM millrace_instances WHERE millrace_instances.id = instance_id)`;
}

/** The condition that an instance belongs to the tenant, is in progress, and is not the given instance. */
export function isOpenOf(tenantId: string, except: string): Statement {
  return sql`tenant_id = ${tenantId} AND id <> ${except} AND status NOT IN ${OVER}`;
}

/** Ends the instances in progress of a deleted tenant, so that no instance starts, retries or sends a callback later. */
export function terminateInstances(ids: readonly string[], tenantId: string, except: string): Statement {
  return sql`
    UPDATE millrace_instances SET status = 'terminated', callback = NULL, check_at = NULL, run = run + 1, updated_at = ${now}
    WHERE id IN ${among(ids)} AND +tenant_id = ${tenantId} AND id <> ${except} AND status NOT IN ${OVER}`;
}

/** Removes instances of a deleted tenant. The rows that refer to these instances must already be removed. */
export function deleteInstances(ids: readonly string[], tenantId: string): Statement {
  return sql`DELETE FROM millrace_instances WHERE id IN ${among(ids)} AND +tenant_id = ${tenantId}`;
}

/** Updates an instance without changing a value. The audit statement that follows requires that an existing instance was updated. */
export function touchInstance(id: string, tenantId: string): Statement {
  return sql`UPDATE millrace_instances SET updated_at = updated_at WHERE id = ${id} AND tenant_id = ${tenantId}`;
}
