import { HttpRefusal, needs, pages, times } from "millrace/http";
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
import { operation } from "./operation.ts";

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

export const qualificationRules = [
  operation("put", PATH, "addRules", "qualification-rules put", {
    summary: "Add a version of the qualification rules",
    description:
      "For each outcome, the first rule whose conditions all hold decides. The applied version is the newest one in effect when the outcome was recorded. Versions are never changed. A repeated request returns the version that the first one created.",
    body: newRulesSchema,
    limits: { maxBytes: MAX_RULES_BYTES },
    answer: ["The new version", RulesSchema],
    problems: ["invalid_transition"],
    async run({ env, by, body: { effective_at, ...asked } }) {
      const at = effective_at === undefined ? undefined : Date.parse(effective_at);
      return rulesView(await addRules(env.DB, by, { ...asked, effective_at: at }));
    },
  }),
  operation("get", PATH, "getRules", "qualification-rules show", {
    summary: "Get the newest version of the rules",
    description: "Returns the newest version of the qualification rules.",
    answer: ["The newest version, which may take effect later", RulesSchema],
    async run({ env, by }) {
      const latest = await latestRules(env.DB, by.tenantId);
      return latest ? rulesView(latest) : { version: 0, effective_at: null, created_at: null, who: null, rules: [] };
    },
  }),
  operation("get", `${PATH}/versions`, "listRulesVersions", "qualification-rules versions", {
    summary: "List the versions of the rules, newest first",
    description: "Returns every version with its time and author. Versions are never changed.",
    query: {
      before: pages.wholeNumber(1).optional().describe("Pass the `next_before` of the previous page."),
      limit: pages.query.limit,
    },
    answer: ["A page of versions", z.object({ items: z.array(VersionSchema), next_before: z.int().nullable() })],
    async run({ env, by, query: { before = Number.MAX_SAFE_INTEGER, limit } }) {
      const found = await versionsBefore(env.DB, by.tenantId, before, limit + 1);
      const items = found.slice(0, limit).map(versionView);
      return { items, next_before: found.length > limit ? (items.at(-1)?.version ?? null) : null };
    },
  }),
  operation("get", `${PATH}/versions/{version}`, "getRulesVersion", "qualification-rules version", {
    summary: "Get a version of the rules",
    description: "Returns the rules of this version.",
    params: { version: pages.wholeNumber(1) },
    answer: ["The version", RulesSchema],
    problems: ["rules_not_found"],
    async run({ env, by, param }) {
      const found = await rulesOfVersion(env.DB, by.tenantId, param.version);
      if (!found) throw new HttpRefusal("rules_not_found", `There is no such version. List them with GET ${PATH}/versions.`);
      return rulesView(found);
    },
  }),
  operation("post", `${PATH}/try`, "tryRules", "qualification-rules try", {
    summary: "Try the rules on an outcome",
    description: "Returns the charge and the payout that the rules compute for an outcome. Writes nothing.",
    ...needs("read"),
    body: trySchema,
    limits: { maxBytes: MAX_RULES_BYTES },
    answer: ["The decision", DecidedSchema],
    async run({ env, by, body: { outcome, rules, at } }) {
      const moment = at === undefined ? Date.now() : Date.parse(at);
      const saved = rules ? undefined : await rulesAt(env.DB, by.tenantId, moment, await recentRules(env.DB, by.tenantId));
      const decision = decide(rules ?? saved?.rules ?? [], outcome);
      const { account, partner } = outcome.payload;
      const { charge_cents = null, payout_cents = null, rule = null } = decision ?? {};
      return {
        version: saved?.version ?? null,
        rule,
        charge: charge_cents === null ? null : { account, amount_cents: charge_cents },
        payout: payout_cents === null || partner === undefined ? null : { partner, amount_cents: payout_cents },
      };
    },
  }),
];

function versionView({ version, effective_at, created_at, who }: RulesVersion): z.infer<typeof VersionSchema> {
  return { version, effective_at: times.iso(effective_at), created_at: times.iso(created_at), who };
}

function rulesView(one: RulesVersion): z.infer<typeof RulesSchema> {
  return { ...versionView(one), rules: one.rules };
}
