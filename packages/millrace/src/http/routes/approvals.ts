import * as z from "zod";
import { hiddenIn } from "../../contract/row.ts";
import { ApprovalFilter, ApprovalRow, getApproval, listApprovals } from "../../inspect/approvals.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { decideApproval } from "../../operate/decide-approval.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { redactionFor, revealQuery } from "../redaction.ts";
import { answers, reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const list = createRoute({
  ...at("get", "/v1/approvals", "listApprovals", "approvals list"),
  summary: "List questions to operators, newest first",
  description:
    "A page filtered by `workflow` or by a decided state scans 5,000 questions. It may be short or empty and still have a `next_cursor`.",
  ...needs("read"),
  request: {
    query: ApprovalFilter.extend(pageQuery).strict(),
  },
  responses: reads("A page of questions", pageOf(ApprovalRow)),
});

const show = createRoute({
  ...at("get", "/v1/approvals/{id}", "getApproval", "approvals show"),
  summary: "Get a question and its answer",
  description: "Returns the question, its details, its due time and the answer, if any.",
  ...needs("read"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject(revealQuery) },
  responses: reads("The question", ApprovalRow, "approval_not_found"),
});

const approve = decision("approve", "Approve a question");
const reject = decision("reject", "Reject a question");

export function approvals(catalog: Catalog) {
  return new Routes<HttpEnv>()
    .openapi(list, async (context) => {
      const filter = context.req.valid("query");
      const found = await listApprovals(context.env, context.var.caller, filter);
      refuseUnknownNames(found, { workflow: { name: filter.workflow, known: catalog.workflows.map(({ name }) => name) } }, filter.cursor);
      const ids = found.items.map((row) => row.instance_id);
      const hide = await redactionOf(catalog).ofInstances(context.env, context.var.caller, ids);
      return context.json(
        page(found, (row) => hiddenIn(ApprovalRow, row, hide(row.instance_id))),
        200,
      );
    })
    .openapi(show, async (context) => {
      const found = await getApproval(context.env, context.var.caller, context.req.valid("param").id);
      const redaction = await redactionFor(context, catalog);
      const hide = await redaction.ofInstances(context.env, context.var.caller, [found.instance_id]);
      return context.json(hiddenIn(ApprovalRow, found, hide(found.instance_id)), 200);
    })
    .openapi(approve, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      const { id } = context.req.valid("param");
      return context.json(await decideApproval(context.env, context.var.caller, id, "approve", reason), 202);
    })
    .openapi(reject, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      const { id } = context.req.valid("param");
      return context.json(await decideApproval(context.env, context.var.caller, id, "reject", reason), 202);
    });
}

function decision(verb: "approve" | "reject", summary: string) {
  return createRoute({
    ...at("post", `/v1/approvals/{id}/${verb}`, `${verb}Question`, `approvals ${verb}`),
    summary,
    description: "A question is answered once and before `due_at`. Later answers are refused with 409.",
    ...needs("operate"),
    request: { params: z.object({ id: z.string() }), body: jsonBody(reasoned) },
    responses: {
      202: answers("The question is answered, and its instance continues", z.object({ action_id: z.string(), instance_id: z.string() })),
      ...problems(...BODY_REFUSALS, "approval_not_found", "invalid_transition"),
    },
  });
}
