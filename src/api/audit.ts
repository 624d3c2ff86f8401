import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { type AuditRow, listActions, VERBS } from "millrace/operate";
import { needs } from "./auth.ts";
import type { ApiEnv } from "./env.ts";
import { page, pageOf, pageQuery } from "./paging.ts";
import { problems } from "./problem.ts";
import { answers } from "./responses.ts";
import { iso, isoOrNull, timestamp } from "./time.ts";

const AuditRowSchema = z
  .object({
    id: z.string().openapi({ description: "The `action_id` its action was answered with." }),
    actor: z.string(),
    verb: z.enum(VERBS),
    target: z.string().openapi({
      description: "The instance, effect key, approval, dead letter, batch, schedule, brand, webhook, article or token it was about.",
    }),
    instance_id: z.string().nullable(),
    reason: z.string(),
    detail: z.record(z.string(), z.unknown()).nullable(),
    result: z
      .enum(["applied", "no_change", "failed"])
      .openapi({ description: "`failed`: the platform could not be told of it within a day." }),
    at: timestamp,
    applied_at: timestamp.nullable().openapi({ description: "When the platform had heard of it; null while that is still owed." }),
    error: z.string().nullable().openapi({ description: "What the last try to tell the platform failed of." }),
  })
  .openapi("AuditRow");

const list = createRoute({
  method: "get",
  path: "/v1/audit",
  operationId: "listAudit",
  summary: "List what operators did, and why; newest first",
  ...needs("read"),
  request: { query: z.strictObject(pageQuery) },
  responses: {
    200: answers("A page of actions", pageOf(AuditRowSchema)),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

export function audit() {
  return new OpenAPIHono<ApiEnv>().openapi(list, async (context) => {
    const found = await listActions(context.env, context.var.caller, context.req.valid("query"));
    return context.json(page(found, rowView), 200);
  });
}

function rowView({ instanceId, at, appliedAt, ...row }: AuditRow): z.infer<typeof AuditRowSchema> {
  return { ...row, instance_id: instanceId, at: iso(at), applied_at: isoOrNull(appliedAt) };
}
