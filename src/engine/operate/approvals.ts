import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";
import { andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { askerOf } from "../signals/approval.ts";
import { applied, audit, type Operator } from "../store/actions.ts";
import { type ApprovalState, answerQuestion, SOMEBODY_WAITS } from "../store/approvals.ts";
import { lookAfterAnswer } from "../store/instances/look.ts";
import { markAnswered } from "../store/instances/wait.ts";
import { namedBatch } from "../store/named.ts";
import { query } from "../store/retry.ts";
import { applyAction } from "./apply.ts";
import { getInstance, type Instance } from "./instances.ts";
import { keysetPage, type Page, type PageRequest } from "./paging.ts";

/** One question to a person, and its answer. */
export interface ApprovalRow {
  id: string;
  instanceId: string;
  workflow: string;
  step: string;
  question: string;
  details: Record<string, unknown> | null;
  state: ApprovalState;
  /** What becomes true if nobody answers until `dueAt`. */
  otherwise: "approve" | "reject";
  dueAt: number;
  /** Null when nobody answered in time, or nobody has yet. */
  decidedBy: string | null;
  reason: string | null;
  askedAt: number;
  decidedAt: number | null;
}

export interface ApprovalFilter extends PageRequest {
  state?: ApprovalRow["state"] | undefined;
  workflow?: string | undefined;
  instance?: string | undefined;
}

/** The tenant's questions, newest first. */
export function listApprovals(env: EngineEnv, by: Operator, filter: ApprovalFilter): Promise<Page<ApprovalRow>> {
  return keysetPage(
    filter,
    ({ askedAt, id }) => ({ at: askedAt, id }),
    async (before, limit) => {
      const rows = await query(
        env.DB,
        sql`
          SELECT * FROM approvals ${whereTheyAre(by, filter)}
            ${andEquals(fragment("state"), filter.state)} ${andEquals(fragment("workflow"), filter.workflow)}
            AND (asked_at, id) < (${before.at}, ${before.id})
          ORDER BY asked_at DESC, id DESC LIMIT ${limit}`,
      );
      return rows.map(asRow);
    },
  );
}

/**
 * The index with the fewest rows: an instance's own; of those that are open, and that somebody waits for, as text, because a partial index
 * serves no condition that is bound; the tenant's by time.
 */
function whereTheyAre(by: Operator, { instance, state }: ApprovalFilter): Statement {
  if (instance !== undefined) return sql`WHERE instance_id = ${instance} AND +tenant_id = ${by.tenantId}`;
  if (state === "pending") {
    return sql`
      INDEXED BY approvals_pending WHERE state = 'pending' AND tenant_id = ${by.tenantId} AND ${SOMEBODY_WAITS}`;
  }
  return sql`INDEXED BY approvals_by_time WHERE tenant_id = ${by.tenantId}`;
}

/** One question. Errors: `approval_not_found`, also for another tenant's. */
export async function getApproval(env: EngineEnv, by: Operator, id: string): Promise<ApprovalRow> {
  return found(await query(env.DB, selectApproval(by, id)));
}

/**
 * Answers a question, once, and lets its instance go on. Errors: `approval_not_found`; `invalid_transition` (audited as no change) when it
 * was answered before, its run is over, or its time is: then what it says under `otherwise` is true.
 */
export async function decideApproval(
  env: EngineEnv,
  by: Operator,
  id: string,
  decision: "approve" | "reject",
  reason: string,
): Promise<{ actionId: string; instanceId: string }> {
  const { instanceId } = await getApproval(env, by, id);
  const actionId = crypto.randomUUID();
  const approved = decision === "approve";
  const verb = approved ? "approve" : "reject_approval";
  const { tenantId } = by;
  const { now, action } = await namedBatch(env.DB, {
    answered: answerQuestion({ id, instanceId, tenantId, approved, by: by.actor, reason }),
    audited: audit(by, { id: actionId, verb, target: id, instanceId, reason }, true),
    goesOn: [markAnswered(tenantId, instanceId), lookAfterAnswer(tenantId, instanceId)],
    now: selectApproval(by, id),
    action: applied(actionId),
  });
  if (action[0]?.result !== "applied")
    throw tooLate(found(now), await getInstance(env, by, instanceId), approved ? "approved" : "rejected");
  await crashPoint("answered, not told");
  await applyAction(env, actionId);
  return { actionId, instanceId };
}

function tooLate({ state, decidedBy, dueAt, otherwise }: ApprovalRow, { status, undo }: Instance, to: string): MillraceError {
  if (state === "pending" && dueAt > Date.now()) {
    const gone = `Nobody waits for the answer any more: its instance is ${undo === null ? status : "being undone"}.`;
    return new MillraceError("invalid_transition", gone, { from: status, to });
  }
  const over = `Its time was over at ${new Date(dueAt).toISOString()}: it is ${otherwise === "approve" ? "approved" : "rejected"}, as its chain says for questions that nobody answers.`;
  const message = decidedBy === null ? over : `It is ${state} already, by ${decidedBy}: a question is answered once.`;
  return new MillraceError("invalid_transition", message, { from: state === "pending" ? "overdue" : state, to });
}

function selectApproval(by: Operator, id: string): Statement {
  return sql`SELECT * FROM approvals WHERE instance_id = ${askerOf(id)} AND id = ${id} AND tenant_id = ${by.tenantId}`;
}

function found([row]: Record<string, unknown>[]): ApprovalRow {
  if (!row)
    throw new MillraceError("approval_not_found", "There is no such approval. List those that wait with GET /v1/approvals?state=pending.");
  return asRow(row);
}

function asRow(row: Record<string, unknown>): ApprovalRow {
  return {
    id: String(row.id),
    instanceId: String(row.instance_id),
    workflow: String(row.workflow),
    step: String(row.step),
    question: String(row.question),
    details: row.details === null ? null : (JSON.parse(String(row.details)) as Record<string, unknown>),
    state: row.state as ApprovalRow["state"],
    otherwise: row.otherwise as ApprovalRow["otherwise"],
    dueAt: Number(row.due_at),
    decidedBy: row.decided_by as string | null,
    reason: row.reason as string | null,
    askedAt: Number(row.asked_at),
    decidedAt: row.decided_at === null ? null : Number(row.decided_at),
  };
}
