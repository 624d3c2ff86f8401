import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import { isPaused } from "./instances/paused.ts";
import { SETTLED, UNDER_WAY } from "./instances/status.ts";

/** The states of a question. A pending one is answered by a person, or by its time, once. */
export type ApprovalState = "pending" | "approved" | "rejected";

/** A question as it is asked first. */
export interface NewQuestion {
  readonly id: string;
  readonly instanceId: string;
  /** The step, as the platform names it. */
  readonly step: string;
  readonly tenantId: string;
  readonly workflow: string;
  readonly question: string;
  /** JSON. */
  readonly details: string | null;
  /** What becomes true if nobody answers in time. */
  readonly otherwise: "approve" | "reject";
  readonly timeoutMs: number;
}

/** Asks a question, unless its instance is paused. One that was asked before stands as it stands. */
export function insertQuestion(asked: NewQuestion): Statement {
  return sql`
    INSERT INTO millrace_approvals (instance_id, step, id, tenant_id, workflow, question, details, otherwise, due_at, asked_at)
    SELECT ${asked.instanceId}, ${asked.step}, ${asked.id}, ${asked.tenantId}, ${asked.workflow}, ${asked.question}, ${asked.details},
      ${asked.otherwise}, ${now} + ${asked.timeoutMs}, ${now}
    WHERE NOT ${isPaused(asked.instanceId)}
    ON CONFLICT (instance_id, step) DO NOTHING`;
}

/** Which question it is. */
interface Asked {
  readonly tenantId: string;
  readonly instanceId: string;
  /** The step, as the platform names it. */
  readonly label: string;
}

/** Answers a question as it says for nobody's answer, if its time is over: by so much as the platform's timer may be early. */
export function settleOverdue({ tenantId, instanceId, label }: Asked, skewMs: number): Statement {
  return sql`
    UPDATE millrace_approvals SET state = iif(otherwise = 'approve', 'approved', 'rejected'), decided_at = ${now}
    WHERE tenant_id = ${tenantId} AND instance_id = ${instanceId} AND step = ${label} AND state = 'pending'
      AND due_at <= ${now} + ${skewMs}`;
}

/** The run that asked could still go on with an answer: it is neither over nor taken back. */
export const SOMEBODY_WAITS = fragment(`EXISTS (SELECT 1 FROM millrace_instances i
    WHERE i.id = millrace_approvals.instance_id AND i.undo IS NULL AND i.status NOT IN ${SETTLED.fragment})`);

/**
 * Why a question takes no answer any more though it has none: how its instance stands, as a column. NULL for one that is answered, and for
 * one that somebody waits for.
 */
export const OVER_AS = fragment(`(
    SELECT iif(i.undo IS NOT NULL AND i.status IN ${UNDER_WAY.fragment}, 'being undone', i.status) FROM millrace_instances i
    WHERE i.id = instance_id AND state = 'pending' AND (i.undo IS NOT NULL OR i.status IN ${SETTLED.fragment}))`);

/** Which question a person answers, and how. */
interface Answer {
  readonly id: string;
  readonly instanceId: string;
  readonly tenantId: string;
  readonly approved: boolean;
  readonly by: string;
  readonly reason: string;
}

/** A person's answer, if the question is still open, its time is not over, and its run could still go on. */
export function answerQuestion({ id, instanceId, tenantId, approved, by, reason }: Answer): Statement {
  return sql`
    UPDATE millrace_approvals SET state = ${approved ? "approved" : "rejected"}, decided_by = ${by}, reason = ${reason}, decided_at = ${now}
    WHERE tenant_id = ${tenantId} AND instance_id = ${instanceId} AND id = ${id} AND state = 'pending' AND due_at > ${now}
      AND ${SOMEBODY_WAITS}`;
}

/** Removes questions with their instances. */
export function removeQuestions(whose: Statement): Statement {
  return sql`DELETE FROM millrace_approvals WHERE ${whose}`;
}
