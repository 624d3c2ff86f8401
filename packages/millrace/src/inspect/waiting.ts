import { fragment } from "../contract/sql.ts";
import { BEGUN, UNSEEN } from "../store/instances/status.ts";
import { pauseOf } from "../store/pauses.ts";

/** An event that an instance waits for, or a question that it has asked. */
export interface AwaitedByInstance {
  /** The step's name in the code, with the key of an item in brackets. */
  step: string;
  /** The event's type, such as `order.paid`; null for a question. */
  eventType: string | null;
  /** The event's subject; null for a question. */
  subject: string | null;
  /** The question's id; null for an event. */
  approvalId: string | null;
  /** When the wait times out, in milliseconds since the epoch; null for a wait that began before the engine recorded this time. */
  until: number | null;
}

const MOST = 20;

/**
 * The column `waiting_for` of a row of `instances`. The column contains the awaited events and questions as JSON. NULL for an instance that
 * has ended or is being undone.
 */
export const WAITING_FOR = fragment(`
  CASE WHEN undo IS NULL AND status IN ${BEGUN.fragment} THEN (
    SELECT json_group_array(json_object('step', step, 'eventType', type, 'subject', subject, 'approvalId', approval_id, 'until', due_at))
    FROM (
      SELECT name AS step, type, subject, NULL AS approval_id, due_at FROM millrace_waits
      WHERE millrace_waits.instance_id = millrace_instances.id AND signal_id IS NULL AND over_at IS NULL
      UNION ALL
      SELECT step, NULL, NULL, id, due_at FROM millrace_approvals
        WHERE millrace_approvals.instance_id = millrace_instances.id AND state = 'pending'
      LIMIT ${MOST})) END AS waiting_for`);

/**
 * The column `held` of a row of `instances`. The column contains the pause that keeps the instance from starting, as text for operators;
 * NULL without a pause.
 */
export const HELD = fragment(
  `CASE WHEN status IN ${UNSEEN.fragment} THEN ${pauseOf("'Paused by ' || p.actor || ': ' || p.reason").fragment} END AS held`,
);

/** True for a row of `instances` with a non-empty `waiting_for`. */
export const IS_WAITING = fragment(`(undo IS NULL AND (
  EXISTS (SELECT 1 FROM millrace_waits WHERE millrace_waits.instance_id = millrace_instances.id AND signal_id IS NULL AND over_at IS NULL)
  OR EXISTS (SELECT 1 FROM millrace_approvals WHERE millrace_approvals.instance_id = millrace_instances.id AND state = 'pending')))`);

export function waitingFor(column: unknown): AwaitedByInstance[] {
  return typeof column === "string" ? JSON.parse(column) : [];
}
