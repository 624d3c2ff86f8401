import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";
import { type ApprovalRow, approvalIn, getApproval, selectApproval } from "../inspect/approvals.ts";
import { getInstance, type Instance } from "../inspect/instances.ts";
import { applied, audit, type Operator } from "../store/actions.ts";
import { answerQuestion } from "../store/approvals.ts";
import { lookAfterAnswer } from "../store/instances/look.ts";
import { markAnswered } from "../store/instances/wait.ts";
import { namedBatch } from "../store/named.ts";
import { applyAction } from "./apply.ts";

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
    throw tooLate(approvalIn(now), await getInstance(env, by, instanceId), approved ? "approved" : "rejected");
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
