import * as z from "zod";
import { aboutThese } from "../../inspect/about.ts";
import { type AuditRow, listActions } from "../../inspect/actions.ts";
import { VERBS } from "../../store/actions.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const RESULTS = ["applied", "no_change", "failed", "refused"] as const;

/** `own` are verbs of the app's own. */
const auditQueryOf = (own: readonly string[]) =>
  z.strictObject({
    target: z.string().max(500).optional().meta({ description: "What it was about, in full." }),
    instance: z.string().max(500).optional().meta({
      description: "What was done to one instance, and to its effects and questions: the instance's id.",
    }),
    result: z.enum(RESULTS).optional(),
    actor: z.string().max(500).optional().meta({ description: "Who acted, in full: a token's name." }),
    verb: z.enum([...VERBS, ...own]).optional(),
    since: z.iso.datetime({ offset: true }).optional().meta({ description: "Done then or later." }),
    until: z.iso.datetime({ offset: true }).optional().meta({ description: "Done before then." }),
    bulk: z.enum(["false"]).optional().meta({
      description: "Leaves out what bulk actions did to each of their things; the row of each bulk action itself (`verb=bulk`) stays.",
    }),
    ...pageQuery,
  });

/** An audited action as the document has it, whose verbs are the engine's and the app's `own`. */
const rowSchemaOf = (own: readonly string[]) =>
  z
    .object({
      id: z.string().meta({ description: "The `action_id` its action was answered with." }),
      actor: z.string(),
      token_id: z
        .string()
        .nullable()
        .meta({ description: "The token that was used; null where a person is known otherwise, or the database was reached directly." }),
      scope: z.string().nullable().meta({ description: "The scopes that the request needed, separated by spaces." }),
      verb: z.enum([...VERBS, ...own]),
      target: z.string().meta({
        description:
          "What it was about: an instance, an effect's key, an approval, a dead letter, a schedule, a token, or something of the app's.",
      }),
      about: z.string().nullable().meta({
        description:
          "What the target is called by people: the workflow and subject of an instance, the step in front of these, the type and key of a dead letter; null for what is none of these, or not kept any more.",
      }),
      instance_id: z.string().nullable(),
      reason: z.string(),
      detail: z.record(z.string(), z.unknown()).nullable(),
      before: z
        .record(z.string(), z.unknown())
        .nullable()
        .meta({ description: "How its target stood; null where nothing changed, or nothing is said of it." }),
      after: z.record(z.string(), z.unknown()).nullable().meta({ description: "How its target stands by it." }),
      result: z.enum(RESULTS).meta({
        description:
          "`failed`: the platform could not be told of it within a day. `refused`: it was not begun; `detail` has the route, the code, and how often in that minute (of many the first, tenth, hundredth … is a row).",
      }),
      at: timestamp,
      applied_at: timestamp.nullable().meta({ description: "When the platform had heard of it; null while that is still owed." }),
      error: z.string().nullable().meta({ description: "What the last try to tell the platform failed of." }),
    })
    .meta({ id: "AuditRow" });

const listOf = (own: readonly string[]) =>
  createRoute({
    method: "get",
    path: "/v1/audit",
    operationId: "listAudit",
    summary: "List what operators did, and why; newest first",
    ...needs("read"),
    request: { query: auditQueryOf(own) },
    responses: {
      200: answers("A page of actions", pageOf(rowSchemaOf(own))),
      ...problems("unauthorized", "forbidden", "invalid_payload"),
    },
  });

/** What operators did. `own` are verbs of the app's own. */
export function audit(own: readonly string[]) {
  return new Routes<HttpEnv>().openapi(listOf(own), async (context) => {
    const { since, until, bulk, ...filter } = context.req.valid("query");
    const times = { since: since ? Date.parse(since) : undefined, until: until ? Date.parse(until) : undefined };
    const found = await listActions(context.env, context.var.caller, { ...filter, ...times, bulk: bulk === undefined });
    const about = await aboutThese(context.env, context.var.caller, found.items);
    return context.json(
      page(found, (row) => ({ ...rowView(row), about: about(row) })),
      200,
    );
  });
}

function rowView({ tokenId, instanceId, at, appliedAt, ...row }: AuditRow): Omit<z.infer<ReturnType<typeof rowSchemaOf>>, "about"> {
  return { ...row, token_id: tokenId, instance_id: instanceId, at: iso(at), applied_at: isoOrNull(appliedAt) };
}
