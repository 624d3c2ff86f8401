import type { Hono } from "hono";
import { type EngineRoutesOptions, engineRoutes, type HttpEnv } from "millrace/http";
import type { Catalog } from "millrace/worker";
import { finders } from "../systems/finders.ts";
import { articleEdits } from "./article-edits.ts";
import { articles } from "./articles.ts";
import { batchReports } from "./batch-reports.ts";
import { batches } from "./batches.ts";
import { brandCycles } from "./brand-cycles.ts";
import { brands } from "./brands.ts";
import { budgets } from "./budgets.ts";
import { contacts } from "./contacts.ts";
import { crmHooks } from "./crm-hooks.ts";
import { crmLinks } from "./crm-links.ts";
import { crmSyncs } from "./crm-syncs.ts";
import { embedded } from "./embedded.ts";
import { facts } from "./facts.ts";
import { landing } from "./landing.ts";
import { ledgers } from "./ledgers.ts";
import { GROUPS } from "./openapi-groups.ts";
import { pages } from "./pages.ts";
import { PROBLEMS } from "./problems.ts";
import { projections } from "./projections.ts";
import { qualificationRules } from "./qualification-rules.ts";
import { research } from "./research.ts";
import { schema } from "./schema.ts";
import { syndication } from "./syndication.ts";
import { tenant } from "./tenant.ts";
import { textUsages } from "./text-usage.ts";
import { OWN_SCOPES, OWN_VERBS } from "./vocabulary.ts";
import { webhookDeliveries } from "./webhook-deliveries.ts";
import { describedDeliveries } from "./webhook-document.ts";
import { webhookRedeliveries } from "./webhook-redeliveries.ts";
import { webhookSecrets } from "./webhook-secrets.ts";
import { webhooks } from "./webhooks.ts";

export function createApi(catalog: Catalog): Hono<HttpEnv> {
  return engineRoutes(catalog, ownRoutes());
}

/** This deployment's own routes, groups, problems and scopes. */
export function ownRoutes(): EngineRoutesOptions {
  const platform = [facts, ledgers, projections, batches, batchReports];
  const derived = [qualificationRules, budgets, contacts, tenant];
  const hooks = [webhooks, webhookSecrets, webhookDeliveries, webhookRedeliveries, describedDeliveries()];
  const growth = [brands, brandCycles, articles, articleEdits, research, textUsages, syndication, crmSyncs, crmLinks, crmHooks];
  return {
    routes: [...platform, ...derived, ...hooks, ...growth, landing, pages(), embedded],
    groups: GROUPS,
    problems: PROBLEMS,
    scopes: OWN_SCOPES,
    verbs: OWN_VERBS,
    finders,
    schema,
    elsewhere: (job) => [{ kind: "facts", url: `/v1/facts?correlation=${encodeURIComponent(job)}` }],
    mcp: () => import("millrace/mcp"),
    knowsCallers: ["crm", "embedded"],
    firstCommand: {
      type: "research.requested",
      payload: { brand: "acme", keyword: "decaf, which fails once" },
      why: "The embedded search refuses this keyword once: its instance fails, and a retry succeeds.",
    },
  };
}
