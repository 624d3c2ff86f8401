import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import { SETTLED, UNDER_WAY } from "./instances/status.ts";
import { isHeld } from "./instances/wait.ts";

/** The state of an approval. A pending approval is decided once, by an operator or at its deadline. */
export type ApprovalState = "pending" | "approved" | "rejected";

export interface NewQuestion {
  readonly id: string;
  readonly instanceId: string;
  /** The number of the run that asks. */
  readonly run: number;
  /** The step's name on the platform. */
  readonly step: string;
  readonly tenantId: string;
  readonly workflow: string;
  readonly question: string;
  /** JSON. */
  readonly details: string | null;
  /** The decision when the deadline passes without an answer. */
  readonly otherwise: "approve" | "reject";
  readonly timeoutMs: number;
}

/** Creates an approval, unless its instance is paused or another run has begun. An existing approval remains unchanged. */
export function insertQuestion(asked: NewQuestion): Statement {
  return sql`
    INSERT INTO millrace_approvals (instance_id, step, id, tenant_id, workflow, question, details, otherwise, due_at, asked_at)
    SELECT ${asked.instanceId}, ${asked.step}, ${asked.id}, ${asked.tenantId}, ${asked.workflow}, ${asked.question}, ${asked.details},
      ${asked.otherwise}, ${now} + ${asked.timeoutMs}, ${now}
    WHERE NOT ${isHeld(asked.instanceId, asked.run)}
    ON CONFLICT (instance_id, step) DO NOTHING`;
}

interface Asked {
  readonly tenantId: string;
  readonly instanceId: string;
  /** The step's name on the platform. */
  readonly label: string;
}

/** Decides an approval at its deadline. `skewMs` is the maximum time by which the platform's timer may be ahead of the database's clock. */
export function settleOverdue({ tenantId, instanceId, label }: Asked, skewMs: number): Statement {
  return sql`
    UPDATE millrace_approvals SET state = iif(otherwise = 'approve', 'approved', 'rejected'), decided_at = ${now}
    WHERE tenant_id = ${tenantId} AND instance_id = ${instanceId} AND step = ${label} AND state = 'pending'
      AND due_at <= ${now} + ${skewMs}`;
}

/** The condition that an instance can still use a decision on an approval, because its run has not ended and is not being undone. */
export const SOMEBODY_WAITS = fragment(`EXISTS (SELECT 1 FROM millrace_instances i
    WHERE i.id = millrace_approvals.instance_id AND i.undo IS NULL AND i.status NOT IN ${SETTLED.fragment})`);

/**
 * The column with the instance's status, if the approval is pending but its instance can no longer use a decision. The column is NULL for
 * all other approvals.
 */
export const OVER_AS = fragment(`(
    SELECT iif(i.undo IS NOT NULL AND i.status IN ${UNDER_WAY.fragment}, 'being undone', i.status) FROM millrace_instances i
    WHERE i.id = instance_id AND state = 'pending' AND (i.undo IS NOT NULL OR i.status IN ${SETTLED.fragment}))`);

interface Answer {
  readonly id: string;
  readonly instanceId: string;
  readonly tenantId: string;
  readonly approved: boolean;
  readonly by: string;
  readonly reason: string;
}

/** Decides a pending approval, if the deadline has not passed and the instance can still use a decision. */
export function answerQuestion({ id, instanceId, tenantId, approved, by, reason }: Answer): Statement {
  return sql`
    UPDATE millrace_approvals SET state = ${approved ? "approved" : "rejected"}, decided_by = ${by}, reason = ${reason}, decided_at = ${now}
    WHERE tenant_id = ${tenantId} AND instance_id = ${instanceId} AND id = ${id} AND state = 'pending' AND due_at > ${now}
      AND ${SOMEBODY_WAITS}`;
}

/** Removes approvals whose instances are removed. */
export function removeQuestions(whose: Statement): Statement {
  return sql`DELETE FROM millrace_approvals WHERE ${whose}`;
}
