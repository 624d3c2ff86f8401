import * as z from "zod";
import { aboutThese } from "../../inspect/about.ts";
import { type AuditRow, listActions } from "../../inspect/actions.ts";
import { INSTANCE_ACTS } from "../../operate/instances/acts.ts";
import { VERBS } from "../../store/actions.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { page, pageOf, pageQuery } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const RESULTS = ["applied", "no_change", "failed", "refused"] as const;

const verbsWith = (own: readonly string[]) => [...new Set([...VERBS, ...Object.values(INSTANCE_ACTS).map(({ verb }) => verb), ...own])];

const auditQueryOf = (own: readonly string[]) =>
  z.strictObject({
    target: z.string().max(500).optional().meta({ description: "The exact target." }),
    instance: z.string().max(500).optional().meta({
      description: "An instance id: actions on this instance, its effects and its questions.",
    }),
    result: z.enum(RESULTS).optional(),
    actor: z.string().max(500).optional().meta({ description: "The exact name of the actor, such as the name of a token." }),
    verb: z.enum(verbsWith(own)).optional(),
    since: z.iso.datetime({ offset: true }).optional().meta({ description: "At or after this time." }),
    until: z.iso.datetime({ offset: true }).optional().meta({ description: "Done before then." }),
    bulk: z.enum(["false"]).optional().meta({
      description: "`false` omits the rows for each item of bulk actions. The row of the bulk action itself (`verb=bulk`) remains.",
    }),
    ...pageQuery,
  });

const rowSchemaOf = (own: readonly string[]) =>
  z
    .object({
      id: z.string().meta({ description: "The `action_id` in the answer to the action." }),
      actor: z.string(),
      token_id: z
        .string()
        .nullable()
        .meta({ description: "The token of the request; null for a user of Cloudflare Access and for direct database access." }),
      scope: z.string().nullable().meta({ description: "The required scopes, separated by spaces." }),
      verb: z.enum(verbsWith(own)),
      target: z.string().meta({
        description:
          "The target: an instance, the key of an effect, an approval, a dead letter, a schedule, a token, or an item of the app.",
      }),
      about: z.string().nullable().meta({
        description:
          "A readable name of the target: workflow and subject of an instance, for an effect with its step in front; type and key of a dead letter. Null for other targets and for removed ones.",
      }),
      instance_id: z.string().nullable(),
      reason: z.string(),
      detail: z.record(z.string(), z.unknown()).nullable(),
      before: z
        .record(z.string(), z.unknown())
        .nullable()
        .meta({ description: "The target before the action; null if nothing changed or was recorded." }),
      after: z.record(z.string(), z.unknown()).nullable().meta({ description: "The target after the action." }),
      result: z.enum(RESULTS).meta({
        description:
          "`failed`: the platform did not accept it within a day. `refused`: it did not start; `detail` has the route, the code and the count in that minute (of many refusals, the first, tenth, hundredth … is a row).",
      }),
      at: timestamp,
      applied_at: timestamp.nullable().meta({ description: "When the platform accepted it; null while that is pending." }),
      error: z.string().nullable().meta({ description: "The error of the last attempt to apply it on the platform." }),
    })
    .meta({ id: "AuditRow" });

const listOf = (own: readonly string[]) =>
  createRoute({
    method: "get",
    path: "/v1/audit",
    operationId: "listAudit",
    command: "audit list",
    summary: "List the actions of operators, newest first",
    description: "Returns each action with its actor, reason, target and result. Rows are kept for 400 days.",
    ...needs("read"),
    request: { query: auditQueryOf(own) },
    responses: {
      200: answers("A page of actions", pageOf(rowSchemaOf(own))),
      ...problems("unauthorized", "forbidden", "invalid_payload"),
    },
  });

/** Routes of the audit. `own`: verbs of the app. */
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
