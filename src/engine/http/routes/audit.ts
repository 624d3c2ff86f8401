import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { type AuditRow, listActions } from "../../inspect/actions.ts";
import { VERBS } from "../../store/actions.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

/** An audited action as the document has it, whose verbs are the engine's and the app's `own`. */
const rowSchemaOf = (own: readonly string[]) =>
  z
    .object({
      id: z.string().openapi({ description: "The `action_id` its action was answered with." }),
      actor: z.string(),
      verb: z.enum([...VERBS, ...own]),
      target: z.string().openapi({
        description:
          "What it was about: an instance, an effect's key, an approval, a dead letter, a schedule, a token, or something of the app's.",
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

const listOf = (own: readonly string[]) =>
  createRoute({
    method: "get",
    path: "/v1/audit",
    operationId: "listAudit",
    summary: "List what operators did, and why; newest first",
    ...needs("read"),
    request: { query: z.strictObject(pageQuery) },
    responses: {
      200: answers("A page of actions", pageOf(rowSchemaOf(own))),
      ...problems("unauthorized", "forbidden", "invalid_payload"),
    },
  });

/** What operators did. `own` are verbs of the app's own. */
export function audit(own: readonly string[]) {
  return new OpenAPIHono<HttpEnv>().openapi(listOf(own), async (context) => {
    const found = await listActions(context.env, context.var.caller, context.req.valid("query"));
    return context.json(page(found, rowView), 200);
  });
}

function rowView({ instanceId, at, appliedAt, ...row }: AuditRow): z.infer<ReturnType<typeof rowSchemaOf>> {
  return { ...row, instance_id: instanceId, at: iso(at), applied_at: isoOrNull(appliedAt) };
}
