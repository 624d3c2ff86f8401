import * as z from "zod";
import { ApprovalFilter, ApprovalRow, getApproval, listApprovals } from "../../inspect/approvals.ts";
import { decideApproval } from "../../operate/decide-approval.ts";
import { operation, reasoned } from "../operation.ts";
import { pageOf, pageQuery } from "../paging.ts";
import { hiddenPage, hiddenRows, revealQuery } from "../redaction.ts";

const decision = <const Verb extends "approve" | "reject">(verb: Verb, summary: string) =>
  operation("post", `/v1/approvals/{id}/${verb}`, `${verb}Question`, `approvals ${verb}`, {
    summary,
    description:
      "A question is answered once and before it is due. Its instance continues with the answer.\n\nA later answer is refused with 409.",
    params: { id: z.string() },
    body: reasoned,
    answer: ["The question is answered, and its instance continues", z.object({ action_id: z.string(), instance_id: z.string() })],
    status: 202,
    problems: ["approval_not_found", "invalid_transition"],
    run: ({ env, by, param, body }) => decideApproval(env, by, param.id, verb, body.reason),
  });

export const approvals = [
  operation("get", "/v1/approvals", "listApprovals", "approvals list", {
    summary: "List questions to operators, newest first",
    description:
      "A page filtered by `workflow` or by a decided state scans 5,000 questions. It may be short or empty and still have a `next_cursor`.",
    query: { ...ApprovalFilter.shape, ...pageQuery },
    answer: ["A page of questions", pageOf(ApprovalRow)],
    run: async (asked) => hiddenPage(asked, ApprovalRow, await listApprovals(asked.env, asked.by, asked.query)),
  }),
  operation("get", "/v1/approvals/{id}", "getApproval", "approvals show", {
    summary: "Get a question and its answer",
    description: "Returns the question, its details, its due time and the answer, if any.",
    query: revealQuery,
    answer: ["The question", ApprovalRow],
    problems: ["approval_not_found"],
    async run(asked) {
      const found = await getApproval(asked.env, asked.by, asked.param.id);
      const [shown = found] = await hiddenRows(asked, ApprovalRow, [found], (row) => row.instance_id);
      return shown;
    },
  }),
  decision("approve", "Approve a question"),
  decision("reject", "Reject a question"),
];
