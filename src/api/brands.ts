import { type Duration, MillraceError } from "millrace";
import { pages, times } from "millrace/http";
import { keysetPage } from "millrace/operate";
import * as z from "zod";
import { brandName, cycle, keyword } from "../messages/brand.ts";
import { platform, siteKind, targetName } from "../messages/targets.ts";
import { faultOf, type SiteTarget, type SocialTarget } from "../providers/index.ts";
import { brandAgentOf } from "../systems/brand/brand-agents.ts";
import { VERDICTS } from "../systems/brand/decide.ts";
import type { Decision } from "../systems/brand/decision-log.ts";
import {
  type BrandSettings,
  DEFAULT_SETTINGS,
  findBrand,
  type KnownBrand,
  listBrands,
  MAX_TARGETS,
  putSettings,
  SETTINGS_LIMITS,
} from "../systems/brand/settings.ts";
import type { BrandState } from "../systems/brand/state.ts";
import { MAX_INSTRUCTIONS, TEMPLATES } from "../systems/brand/templates.ts";
import { agentOf, unknownBrand } from "./brand-agent.ts";
import { cycleSummary, cycleTimes } from "./brand-cycles.ts";
import type { ApiEnv } from "./env.ts";
import { operation } from "./operation.ts";

const { maxDrafts, rate } = SETTINGS_LIMITS;

const secret = targetName.optional().meta({
  description: "The name of the tenant's secret with its address and credential. The variable is derived from the tenant and this name.",
  examples: ["blog"],
});
const siteSchema = z.strictObject({
  name: targetName,
  kind: siteKind.meta({
    description: "`deployment`: the site of the deployment's variables; `store`: the page store in R2; the others need a secret.",
  }),
  secret,
});
const accountSchema = z.strictObject({
  name: targetName,
  platform: platform.meta({
    description: "Without `secret`, posts on Bluesky use the account of the deployment's variables, and others use the embedded server.",
  }),
  secret,
});

/** A list of sites or accounts with different names. */
function named<Schema extends z.ZodType<{ name: string }>>(target: Schema, least: 0 | 1) {
  return z
    .array(target)
    .min(least)
    .max(MAX_TARGETS)
    .refine((all) => new Set(all.map(({ name }) => name)).size === all.length, "must not have two of one name");
}

const settingsSchema = z.strictObject({
  max_drafts: z.int().min(1).max(maxDrafts).default(DEFAULT_SETTINGS.max_drafts).meta({
    description: "Maximum number of articles that are drafts or in progress. At this limit, new keywords wait.",
  }),
  rate_per_second: z.number().min(rate.least).max(rate.most).default(DEFAULT_SETTINGS.rate_per_second).meta({
    description: "Maximum number of commands per second that a cycle sends.",
  }),
  approval: z.enum(["none", "required"]).default(DEFAULT_SETTINGS.approval).meta({
    description: "`required`: an operator must approve each article before its publication.",
  }),
  approval_timeout: z
    .string()
    .regex(
      /^([1-9]\d{0,2} (second|minute|hour)s?|([1-9]\d?|[12]\d\d|3[0-5]\d|36[0-5]) days?)$/,
      'must be a length of time such as "90 minutes", "12 hours" or "3 days", at most "365 days"',
    )
    .default(String(DEFAULT_SETTINGS.approval_timeout))
    .meta({ description: "Time limit for the approval of an article." }),
  approval_default: z.enum(["approve", "reject"]).default(DEFAULT_SETTINGS.approval_default).meta({
    description: "The decision about an article if nobody answers within the time limit.",
  }),
  sites: named(siteSchema, 1)
    .default([...DEFAULT_SETTINGS.sites])
    .meta({ description: "The sites on which the brand's pages are published, beginning with the first." }),
  accounts: named(accountSchema, 0)
    .default([...DEFAULT_SETTINGS.accounts])
    .meta({
      description: "The accounts that announce the brand's pages; an empty list for none.",
    }),
  announced_site: targetName.nullable().default(DEFAULT_SETTINGS.announced_site).meta({
    description: "The name of the announced site: posts link to its page. Null means the first of `sites`.",
  }),
  template: z.enum(TEMPLATES).default(DEFAULT_SETTINGS.template).meta({ description: "The template of new articles." }),
  instructions: z.string().trim().max(MAX_INSTRUCTIONS).default(DEFAULT_SETTINGS.instructions).meta({
    description: "Wishes for style and content, which the prompt of new articles quotes; empty for none.",
  }),
  reason: z.string().trim().max(500).default("").meta({ description: "The caller's reason, which the audit records." }),
});

const SettingsSchema = z.object({
  max_drafts: z.int(),
  rate_per_second: z.number(),
  approval: z.enum(["none", "required"]),
  approval_timeout: z.string(),
  approval_default: z.enum(["approve", "reject"]),
  sites: z.array(siteSchema),
  accounts: z.array(accountSchema),
  announced_site: z.string().nullable(),
  template: z.enum(TEMPLATES),
  instructions: z.string(),
});

const BrandSchema = z
  .object({
    brand: z.string(),
    settings: SettingsSchema,
    updated_at: times.timestamp.nullable().meta({ description: "The time of the last change; null while the defaults apply." }),
    updated_by: z.string().nullable(),
  })
  .meta({ id: "Brand" });

const CountsSchema = z.object({
  live: z.int().meta({ description: "Published articles." }),
  drafts: z.int().meta({ description: "The number of drafts that wait for their publication." }),
  on_their_way: z.int().meta({ description: "The number of articles in progress without a draft." }),
  held: z.int().meta({ description: "The number of keywords that wait because `max_drafts` is reached." }),
});

const BrandDetailSchema = BrandSchema.extend({
  counts: CountsSchema,
  totals: z
    .object({
      pending_research: z.int().meta({ description: "Keywords whose research was requested, and is not complete." }),
      generated: z.int().meta({ description: "Articles ever written." }),
      published: z.int().meta({ description: "Articles ever published; an article that is published again counts once." }),
    })
    .meta({ description: "The number of all articles of the brand, including removed ones." }),
  last_cycle: z
    .object(cycleTimes)
    .nullable()
    .meta({ description: "The newest cycle of the brand. GET /v1/brands/{brand}/cycles/{cycle} has its keywords." }),
  last_audit: z
    .object({ at: times.timestamp, findings: z.array(z.string()) })
    .nullable()
    .meta({ description: "The agent's last audit, with its corrections." }),
}).meta({ id: "BrandDetail" });

const DecisionSchema = z
  .object({
    at: times.timestamp,
    cycle: z.string(),
    keyword: z.string(),
    verdict: z.enum(VERDICTS),
    reason: z.string(),
    grounds: z
      .object({
        content_id: z.string().optional(),
        research_id: z.string().optional(),
        instance_id: z.string().optional().meta({ description: "The instance that researches the keyword." }),
        drafts: z.int().optional(),
        on_their_way: z.int().optional(),
        max_drafts: z.int().optional(),
      })
      .meta({ description: "The data on which the decision is based." }),
  })
  .meta({ id: "BrandDecision" });

const KeywordSchema = z
  .object({
    keyword: z.string(),
    state: z.enum(["live", "draft", "writing", "researching", "held", "idle"]),
    content_id: z.string().nullable().meta({ description: "The id of the article that `state` describes." }),
    research: z
      .object({ id: z.string(), made_at: times.timestamp })
      .nullable()
      .meta({ description: "The newest research of the keyword, while it is fresh." }),
  })
  .meta({ id: "BrandKeyword" });

const params = { brand: brandName };
const PATH = "/v1/brands/{brand}";

export const brands = [
  operation("get", "/v1/brands", "listBrands", "brands list", {
    summary: "List brands by name",
    description: "Lists the brands with settings or with a decision of their agent.",
    query: pages.nameQuery(50, 200),
    answer: ["A page of brands", pages.schema(BrandSchema)],
    async run({ env, by, query: { cursor = "", limit } }) {
      const found = await listBrands(env.DB, by.tenantId, cursor, limit + 1);
      return pages.byName(found, limit, ({ brand }) => brand, brandView);
    },
  }),
  operation("get", PATH, "getBrand", "brands show", {
    summary: "Get a brand",
    description: "Returns the settings of the brand and the current state of its agent.",
    params,
    answer: ["The brand's present state", BrandDetailSchema],
    problems: ["brand_not_found"],
    async run({ env, by, param: { brand } }) {
      const [known, state] = await Promise.all([findBrand(env.DB, by.tenantId, brand), brandAgentOf(env, by.tenantId, brand).state()]);
      if (!known && !state) throw unknownBrand(brand);
      const view = brandView(known ?? { brand, ...DEFAULT_SETTINGS, updated_at: null, updated_by: null });
      const { audit, cycle, counts = NO_COUNTS, totals = NO_TOTALS } = state ?? {};
      const last_audit = audit ? { at: times.iso(audit.at), findings: audit.findings } : null;
      return { ...view, counts, totals, last_audit, last_cycle: cycle ? cycleSummary(cycle) : null };
    },
  }),
  operation("put", PATH, "putBrand", "brands put", {
    summary: "Set the settings of a brand",
    description:
      "Replaces all settings; an omitted setting gets its default. The new settings apply from the next decision of the agent. Work that was held back may start immediately.",
    params,
    body: settingsSchema,
    answer: ["The brand", BrandSchema],
    problems: ["invalid_transition"],
    async run({ env, by, param: { brand }, body: { approval_timeout, reason, ...rest } }) {
      const settings = { ...rest, approval_timeout: approval_timeout as Duration };
      assertReachable(env, { tenantId: by.tenantId, brand }, settings);
      const put = await putSettings(env.DB, by, brand, settings, reason);
      await brandAgentOf(env, by.tenantId, brand).wake();
      return brandView(put);
    },
  }),
  operation("get", `${PATH}/decisions`, "listBrandDecisions", "brands decisions", {
    summary: "List the decisions of the brand's agent, newest first",
    description: "Returns each decision with its reason. Decisions are kept for 90 days, at most 5,000.",
    params,
    query: { keyword: keyword.optional(), cycle: cycle.optional(), ...pages.query },
    answer: ["A page of decisions", pages.schema(DecisionSchema)],
    problems: ["brand_not_found"],
    async run({ env, by, param, query: { keyword, cycle, ...request } }) {
      const agent = await agentOf(env, by.tenantId, param.brand);
      const found = await keysetPage<Decision>(
        request,
        ({ place }) => ({ at: place, id: "d" }),
        ({ at }, limit) => agent.decisions({ keyword, cycle, before: at, limit }),
      );
      return pages.of(found, decisionView);
    },
  }),
  operation("get", `${PATH}/keywords`, "listBrandKeywords", "brands keywords", {
    summary: "List the keywords of a brand, newest first",
    description: "Returns the data that the agent of the brand has recorded for each keyword.",
    params,
    query: pages.query,
    answer: ["A page of keywords", pages.schema(KeywordSchema)],
    problems: ["brand_not_found"],
    async run({ env, by, param, query }) {
      const agent = await agentOf(env, by.tenantId, param.brand);
      const found = await keysetPage<Keyword>(
        query,
        ({ place }) => ({ at: place, id: "k" }),
        ({ at }, limit) => agent.keywords(at, limit),
      );
      return pages.of(found, keywordView);
    },
  }),
];

/**
 * Errors: `invalid_payload` for a site or account without a usable secret in this deployment, and for an announced site that is not one of
 * the brand's sites.
 */
function assertReachable(env: ApiEnv["Bindings"], of: { tenantId: string; brand: string }, settings: BrandSettings): void {
  const { sites, accounts, announced_site } = settings;
  const targets: [string, SiteTarget | SocialTarget][] = [
    ...sites.map((site, index): [string, SiteTarget] => [`sites.${index}.secret`, { ...of, ...site }]),
    ...accounts.map((account, index): [string, SocialTarget] => [`accounts.${index}.secret`, { ...of, ...account }]),
  ];
  const issues = targets.flatMap(([path, target]) => {
    // Errors in the deployment's own variables are not reported to this caller. The steps that use the variables report such errors.
    if ("platform" in target && target.platform === "bluesky" && target.secret === undefined) return [];
    if ("kind" in target && (target.kind === "store" || target.kind === "deployment")) {
      return target.secret === undefined ? [] : [{ path, message: `must be left out for the kind ${target.kind}` }];
    }
    const message = faultOf(env, target);
    return message === undefined ? [] : [{ path, message }];
  });
  if (announced_site !== null && !sites.some(({ name }) => name === announced_site)) {
    issues.push({ path: "announced_site", message: "must be the name of one of `sites`" });
  }
  const [first] = issues;
  if (first) throw new MillraceError("invalid_payload", `${first.path}: ${first.message}`, { issues });
}

const NO_COUNTS = { live: 0, drafts: 0, on_their_way: 0, held: 0 };
const NO_TOTALS = { pending_research: 0, generated: 0, published: 0 };

type Keyword = ReturnType<BrandState["keywords"]>[number];

function brandView({ brand, updated_at, updated_by, ...settings }: KnownBrand): z.infer<typeof BrandSchema> {
  return {
    brand,
    settings: {
      ...settings,
      approval_timeout: String(settings.approval_timeout),
      sites: [...settings.sites],
      accounts: [...settings.accounts],
    },
    updated_at: times.isoOrNull(updated_at),
    updated_by,
  };
}

function decisionView({ at, cycle, keyword, verdict, reason, grounds }: Decision): z.infer<typeof DecisionSchema> {
  return { at: times.iso(at), cycle, keyword, verdict, reason, grounds };
}

function keywordView({ spelled, known }: Keyword): z.infer<typeof KeywordSchema> {
  const { live, draft, writing, researching, heldBy, research } = known;
  return {
    keyword: spelled,
    state: live ? "live" : draft ? "draft" : writing ? "writing" : researching ? "researching" : heldBy !== undefined ? "held" : "idle",
    content_id: live ?? draft ?? writing ?? null,
    research: research ? { id: research.id, made_at: times.iso(research.at) } : null,
  };
}
