import { refuseArchived } from "../archive/read.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { type ApprovalRow, approvalIn, getApproval, selectApproval } from "../inspect/approvals.ts";
import type { Instance } from "../inspect/instance-row.ts";
import { getInstance } from "../inspect/instances.ts";
import { askerOf } from "../signals/approval.ts";
import { type Action, actionIdOf, type Operator } from "../store/actions.ts";
import { answerQuestion } from "../store/approvals.ts";
import { lookAfterAnswer } from "../store/instances/look.ts";
import { markAnswered } from "../store/instances/wait.ts";
import { act, type Refusal } from "./act.ts";

/**
 * Records the answer to a question, once, and continues the question's instance. Errors: `approval_not_found`; `invalid_transition`
 * (audited as no change) if the question was answered before, the question's run is over, or its deadline has passed and `otherwise`
 * applies.
 */
export async function decideApproval(env: EngineEnv, by: Operator, id: string, decision: "approve" | "reject", reason: string) {
  const { instance_id: instanceId } = await getApproval(env, by, id).catch((error) => refuseArchived(env, by, askerOf(id), error));
  const { tenantId } = by;
  const approved = decision === "approve";
  const actionId = actionIdOf(by);
  const changed = { before: { state: "pending" }, after: { state: approved ? "approved" : "rejected" } };
  const action: Action = { id: actionId, verb: approved ? "approve" : "reject_approval", target: id, instanceId, reason, ...changed };
  await act(env, by, action, {
    change: answerQuestion({ id, instanceId, tenantId, approved, by: by.actor, reason }),
    also: { goesOn: [markAnswered(tenantId, instanceId), lookAfterAnswer(tenantId, instanceId)], now: selectApproval(by, id) },
    refused: async ({ now }) => tooLate(approvalIn(now), await getInstance(env, by, instanceId), approved ? "approved" : "rejected"),
    window: "question answered, instance not notified",
  });
  return { action_id: actionId, instance_id: instanceId };
}

function tooLate({ state, ended_as, decided_by, due_at, otherwise }: ApprovalRow, { status }: Instance, to: string): Refusal {
  if (state === "pending" && Date.parse(due_at) > Date.now()) {
    const why = `The question is no longer open: its instance is ${ended_as ?? status}.`;
    return { why, from: status, to };
  }
  const timeIsOver = `The question timed out at ${due_at}: it is ${otherwise === "approve" ? "approved" : "rejected"}, as its approval chain defines.`;
  const why = decided_by === null ? timeIsOver : `The question is ${state} already, by ${decided_by}: a question accepts one answer.`;
  return { why, from: state === "pending" ? "overdue" : state, to };
}
