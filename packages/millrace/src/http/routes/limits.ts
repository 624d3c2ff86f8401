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
    limit: z.number().meta({ description: "At most so many in any stretch of that length; of a bucket, at once." }),
    refill: z.number().nullable().meta({ description: "Of a bucket: so many come back in each period, evenly. Null for a window." }),
    period_seconds: z.number(),
    used: z.number().meta({ description: "Used of `limit` now; of a bucket with what was promised ahead." }),
  })
  .meta({ id: "LimitRule" });

const LimitSchema = z
  .object({
    name: z.string(),
    rules: z.array(RuleSchema).meta({ description: "All of them hold, as it was last asked with." }),
    waiting: z.number().meta({ description: "Promised of the time to come: whoever waits for a turn." }),
    paused_until: timestamp.nullable().meta({ description: "Nothing goes before then; null where it may." }),
    share: z.number().min(0).max(1).meta({
      description: "The share of its rate at which calls go evenly, because the upstream refused some: it grows by a sixtieth each second.",
    }),
    used_at: timestamp.meta({ description: "The last moment that was given away; it may be ahead." }),
  })
  .meta({ id: "Limit" });

const list = createRoute({
  method: "get",
  path: "/v1/limits",
  operationId: "listLimits",
  summary: "List the limits that were taken from in your tenant's name within the last day, by name",
  description:
    "A limit that tenants share is shown to each of them, with what all have used. Requests that a token may send are none of these.",
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
