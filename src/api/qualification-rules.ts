import { answers, bodies, createRoute, HttpRefusal, needs, pages, Routes, times } from "millrace/http";
import * as z from "zod";
import { FACT_PAYLOADS } from "../messages/fact.ts";
import { decide } from "../systems/facts/decide.ts";
import {
  addRules,
  latestRules,
  type RulesVersion,
  recentRules,
  rulesAt,
  rulesOfVersion,
  versionsBefore,
} from "../systems/facts/derived/rules.ts";
import { rulesSchema } from "../systems/facts/rules.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

/** Maximum size of a rules version: D1 stores a version as one value of at most 2 MB, and every batch of outcomes reads a few versions. */
const MAX_RULES_BYTES = 64 * 1024;

const newRulesSchema = z.strictObject({
  rules: rulesSchema,
  expected_version: z.int().min(0).meta({
    description: "The version that the new one replaces; 0 for the first version. If another version is current, the response is 409.",
  }),
  effective_at: z.iso.datetime().optional().meta({
    description:
      "The time when the version takes effect, at least 10 seconds ahead; default a minute ahead. The first version is in effect from the beginning.",
  }),
});

const trySchema = z.strictObject({
  outcome: z.strictObject({ subtype: z.string().min(1).max(100).optional(), payload: FACT_PAYLOADS.outcome }),
  rules: rulesSchema.optional().meta({ description: "Rules to try without saving them; default: the saved rules." }),
  at: z.iso.datetime().optional().meta({ description: "The recording time of the outcome to assume; default: now." }),
});

const VersionSchema = z
  .object({
    version: z
      .int()
      .meta({ description: "The number of the version; 0 while no rules have been set: outcomes are neither charged nor paid out." }),
    effective_at: times.timestamp.nullable().meta({ description: "The version applies to outcomes recorded from this time on." }),
    created_at: times.timestamp.nullable(),
    who: z.string().nullable(),
  })
  .meta({ id: "RulesVersion" });
const RulesSchema = VersionSchema.extend({ rules: rulesSchema }).meta({ id: "Rules" });

const DecidedSchema = z
  .object({
    version: z
      .int()
      .nullable()
      .meta({ description: "The version of the rules that decided; null for rules that are not saved, or when there are none." }),
    rule: z.string().nullable().meta({ description: "The name of the first rule that matched, or null." }),
    charge: z.object({ account: z.string(), amount_cents: z.int() }).nullable(),
    payout: z.object({ partner: z.string(), amount_cents: z.int() }).nullable(),
  })
  .meta({ id: "Decided" });

const PATH = "/v1/qualification-rules";

const put = createRoute({
  method: "put",
  path: PATH,
  operationId: "addRules",
  command: "qualification-rules put",
  summary: "Add a version of the qualification rules",
  description:
    "For each outcome, the first rule whose conditions all hold decides. The applied version is the newest one in effect when the outcome was recorded. Versions are never changed. A repeated request returns the version that the first one created.",
  ...needs("operate"),
  request: { body: bodies.json(newRulesSchema) },
  responses: {
    200: answers("The new version", RulesSchema),
    ...problems(...bodies.refusals, "invalid_transition"),
  },
});

const current = createRoute({
  method: "get",
  path: PATH,
  operationId: "getRules",
  command: "qualification-rules show",
  summary: "Get the newest version of the rules",
  description: "Returns the newest version of the qualification rules.",
  ...needs("read"),
  responses: {
    200: answers("The newest version, which may take effect later", RulesSchema),
    ...problems("unauthorized", "forbidden"),
  },
});

const list = createRoute({
  method: "get",
  path: `${PATH}/versions`,
  operationId: "listRulesVersions",
  command: "qualification-rules versions",
  summary: "List the versions of the rules, newest first",
  description: "Returns every version with its time and author. Versions are never changed.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      before: pages.wholeNumber(1).optional().meta({ type: "integer", description: "Pass the `next_before` of the previous page." }),
      limit: pages.query.limit,
    }),
  },
  responses: {
    200: answers("A page of versions", z.object({ items: z.array(VersionSchema), next_before: z.int().nullable() })),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const show = createRoute({
  method: "get",
  path: `${PATH}/versions/{version}`,
  operationId: "getRulesVersion",
  command: "qualification-rules version",
  summary: "Get a version of the rules",
  description: "Returns the rules of this version.",
  ...needs("read"),
  request: { params: z.object({ version: pages.wholeNumber(1).meta({ type: "integer" }) }) },
  responses: {
    200: answers("The version", RulesSchema),
    ...problems("unauthorized", "forbidden", "invalid_payload", "rules_not_found"),
  },
});

const attempt = createRoute({
  method: "post",
  path: `${PATH}/try`,
  operationId: "tryRules",
  command: "qualification-rules try",
  summary: "Try the rules on an outcome",
  description: "Returns the charge and the payout that the rules compute for an outcome. Writes nothing.",
  ...needs("read"),
  request: { body: bodies.json(trySchema) },
  responses: {
    200: answers("The decision", DecidedSchema),
    ...problems(...bodies.refusals),
  },
});

export function qualificationRules() {
  return new Routes<ApiEnv>()
    .openapi(put, async ({ env, req, var: { caller }, json }) => {
      const { effective_at, ...asked } = await bodies.read(req, newRulesSchema, { maxBytes: MAX_RULES_BYTES });
      const at = effective_at === undefined ? undefined : Date.parse(effective_at);
      return json(rulesView(await addRules(env.DB, caller, { ...asked, effective_at: at })), 200);
    })
    .openapi(current, async ({ env, var: { caller }, json }) => {
      const latest = await latestRules(env.DB, caller.tenantId);
      return json(latest ? rulesView(latest) : { version: 0, effective_at: null, created_at: null, who: null, rules: [] }, 200);
    })
    .openapi(list, async ({ env, req, var: { caller }, json }) => {
      const { before = Number.MAX_SAFE_INTEGER, limit } = req.valid("query");
      const found = await versionsBefore(env.DB, caller.tenantId, before, limit + 1);
      const items = found.slice(0, limit).map(versionView);
      return json({ items, next_before: found.length > limit ? (items.at(-1)?.version ?? null) : null }, 200);
    })
    .openapi(show, async ({ env, req, var: { caller }, json }) => {
      const found = await rulesOfVersion(env.DB, caller.tenantId, req.valid("param").version);
      if (!found) throw new HttpRefusal("rules_not_found", `There is no such version. List them with GET ${PATH}/versions.`);
      return json(rulesView(found), 200);
    })
    .openapi(attempt, async ({ env, req, var: { caller }, json }) => {
      const { outcome, rules, at } = await bodies.read(req, trySchema, { maxBytes: MAX_RULES_BYTES });
      const moment = at === undefined ? Date.now() : Date.parse(at);
      const saved = rules ? undefined : await rulesAt(env.DB, caller.tenantId, moment, await recentRules(env.DB, caller.tenantId));
      const decision = decide(rules ?? saved?.rules ?? [], outcome);
      const { account, partner } = outcome.payload;
      const { charge_cents = null, payout_cents = null, rule = null } = decision ?? {};
      return json(
        {
          version: saved?.version ?? null,
          rule,
          charge: charge_cents === null ? null : { account, amount_cents: charge_cents },
          payout: payout_cents === null || partner === undefined ? null : { partner, amount_cents: payout_cents },
        },
        200,
      );
    });
}

function versionView({ version, effective_at, created_at, who }: RulesVersion): z.infer<typeof VersionSchema> {
  return { version, effective_at: times.iso(effective_at), created_at: times.iso(created_at), who };
}

function rulesView(one: RulesVersion): z.infer<typeof RulesSchema> {
  return { ...versionView(one), rules: one.rules };
}
