import * as z from "zod";
import type { RuleSeen } from "../../limits/look.ts";
import { type ListedLimit, listLimits } from "../../limits/seen.ts";
import { needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { nameQuery, pageBehind, pageOf } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const RuleSchema = z
  .object({
    limit: z.number().meta({ description: "For a window: the highest count in any period. For a bucket: its capacity." }),
    refill: z.number().nullable().meta({ description: "For a bucket: the tokens added per period, evenly. Null for a window." }),
    period_seconds: z.number(),
    used: z.number().meta({ description: "The used part of `limit`; for a bucket including reservations." }),
  })
  .meta({ id: "LimitRule" });

const LimitSchema = z
  .object({
    name: z.string(),
    rules: z.array(RuleSchema).meta({ description: "The rules of the last call. All of them apply." }),
    waiting: z.number().meta({ description: "Reservations of waiting callers." }),
    paused_until: timestamp.nullable().meta({ description: "No call is allowed before this time; null if calls are allowed." }),
    share: z.number().min(0).max(1).meta({
      description: "The share of the rate that is in use after refusals of the upstream. It grows by 1/60 per second.",
    }),
    used_at: timestamp.meta({ description: "The time of the last granted call; it may be in the future." }),
  })
  .meta({ id: "Limit" });

const list = createRoute({
  method: "get",
  path: "/v1/limits",
  operationId: "listLimits",
  command: "limits list",
  summary: "List the rate limits your tenant used in the last day, by name",
  description: "A limit shared by tenants is shown to each of them with the usage of all. The request limits of tokens are not included.",
  ...needs("read"),
  request: { query: z.strictObject(nameQuery(50, 100)) },
  responses: { 200: answers("A page of limits", pageOf(LimitSchema)), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

export function limits() {
  return new Routes<HttpEnv>().openapi(list, async ({ env, req, var: { caller }, json }) => {
    const { cursor = "", limit } = req.valid("query");
    return json(pageBehind(await listLimits(env, caller, { after: cursor, limit }), limitView), 200);
  });
}

function limitView({ name, rules, waiting, pausedUntil, share, usedAt }: ListedLimit): z.infer<typeof LimitSchema> {
  return { name, rules: rules.map(ruleView), waiting, paused_until: isoOrNull(pausedUntil), share, used_at: iso(usedAt) };
}

function ruleView(rule: RuleSeen): z.infer<typeof RuleSchema> {
  const [limit, refill] = "burst" in rule ? [rule.burst, rule.refill] : [rule.limit, null];
  return { limit, refill, period_seconds: rule.periodMs / 1000, used: rule.used };
}
