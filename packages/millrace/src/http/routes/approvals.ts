import * as z from "zod";
import type { Hide } from "../../contract/hide.ts";
import { type ApprovalRow, getApproval, listApprovals } from "../../inspect/approvals.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { decideApproval } from "../../operate/decide-approval.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { KNOWN_NAMES, refuseUnknownNames } from "../known-names.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { redactionFor, revealQuery } from "../redaction.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const STATES = ["pending", "approved", "rejected"] as const;

const ApprovalSchema = z
  .object({
    id: z.string(),
    instance_id: z.string(),
    workflow: z.string(),
    step: z.string(),
    question: z.string().meta({ description: "The question. Plain text: never render it as HTML." }),
    details: z.record(z.string(), z.unknown()).nullable().meta({ description: "Details for the decision." }),
    state: z.enum(STATES),
    over: z.string().nullable().meta({
      description:
        "For a pending question that can no longer be answered: the status of its instance, such as `terminated`. Otherwise null. `?state=pending` omits such questions.",
    }),
    otherwise: z.enum(["approve", "reject"]).meta({ description: "The decision if no answer arrives before `due_at`." }),
    due_at: timestamp,
    decided_by: z.string().nullable().meta({ description: "The actor who answered; null without an answer." }),
    reason: z.string().nullable(),
    asked_at: timestamp,
    decided_at: timestamp.nullable(),
  })
  .meta({ id: "Approval" });

const list = createRoute({
  method: "get",
  path: "/v1/approvals",
  operationId: "listApprovals",
  command: "approvals list",
  summary: "List questions to operators, newest first",
  description:
    "A page filtered by `workflow` or by a decided state scans 5,000 questions. It may be short or empty and still have a `next_cursor`.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      state: z.enum(STATES).optional(),
      workflow: z.string().optional().meta({ description: KNOWN_NAMES }),
      instance: z.string().optional().meta({ description: "The id of the asking instance." }),
      ...pageQuery,
    }),
  },
  responses: {
    200: answers("A page of questions", pageOf(ApprovalSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const show = createRoute({
  method: "get",
  path: "/v1/approvals/{id}",
  operationId: "getApproval",
  command: "approvals show",
  summary: "Get a question and its answer",
  description: "Returns the question, its details, its due time and the answer, if any.",
  ...needs("read"),
  request: { params: z.object({ id: z.string() }), query: z.strictObject(revealQuery) },
  responses: {
    200: answers("The question", ApprovalSchema),
    ...problems("unauthorized", "forbidden", "approval_not_found", "invalid_payload"),
  },
});

const approve = decision("approve", "Approve a question");
const reject = decision("reject", "Reject a question");

export function approvals(catalog: Catalog) {
  return new Routes<HttpEnv>()
    .openapi(list, async (context) => {
      const filter = context.req.valid("query");
      const found = await listApprovals(context.env, context.var.caller, filter);
      refuseUnknownNames(found, { workflow: { name: filter.workflow, known: catalog.workflows.map(({ name }) => name) } }, filter.cursor);
      const ids = found.items.map(({ instanceId }) => instanceId);
      const hide = await redactionOf(catalog).ofInstances(context.env, context.var.caller, ids);
      return context.json(
        page(found, (row) => approvalView(row, hide(row.instanceId))),
        200,
      );
    })
    .openapi(show, async (context) => {
      const found = await getApproval(context.env, context.var.caller, context.req.valid("param").id);
      const redaction = await redactionFor(context, catalog);
      const hide = await redaction.ofInstances(context.env, context.var.caller, [found.instanceId]);
      return context.json(approvalView(found, hide(found.instanceId)), 200);
    })
    .openapi(approve, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      const { id } = context.req.valid("param");
      return context.json(decided(await decideApproval(context.env, context.var.caller, id, "approve", reason)), 202);
    })
    .openapi(reject, async (context) => {
      const { reason } = await readBody(context.req, reasoned);
      const { id } = context.req.valid("param");
      return context.json(decided(await decideApproval(context.env, context.var.caller, id, "reject", reason)), 202);
    });
}

function decision(verb: "approve" | "reject", summary: string) {
  return createRoute({
    method: "post",
    path: `/v1/approvals/{id}/${verb}`,
    operationId: `${verb}Question`,
    command: `approvals ${verb}`,
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

function decided({ actionId, instanceId }: { actionId: string; instanceId: string }) {
  return { action_id: actionId, instance_id: instanceId };
}

export function approvalView(row: ApprovalRow, hide: Hide): z.infer<typeof ApprovalSchema> {
  return {
    id: row.id,
    instance_id: row.instanceId,
    workflow: row.workflow,
    step: row.step,
    question: hide(row.question),
    details: hide(row.details),
    state: row.state,
    over: row.over,
    otherwise: row.otherwise,
    due_at: iso(row.dueAt),
    decided_by: row.decidedBy,
    reason: row.reason,
    asked_at: iso(row.askedAt),
    decided_at: isoOrNull(row.decidedAt),
  };
}
