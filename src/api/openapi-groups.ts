import type { EngineRoutesOptions } from "millrace/http";

/** The groups in the OpenAPI document for the routes that this deployment adds to the engine's routes. */
export const GROUPS: EngineRoutesOptions["groups"] = [
  { name: "Tenant", paths: ["/v1/tenant"], description: "All data of a tenant." },
  {
    name: "Facts",
    paths: ["/v1/facts", "/v1/ledgers", "/v1/projections"],
    description: "Ledgers of facts, and the projection across them.",
  },
  { name: "Rules", paths: ["/v1/qualification-rules"], description: "The rules that turn outcomes into charges and payouts." },
  { name: "Budgets", paths: ["/v1/budgets"], description: "Limits, checked before money is spent." },
  { name: "Contacts", paths: ["/v1/contacts"], description: "Contacts, their identities and merges." },
  { name: "Webhooks", paths: ["/v1/webhooks"], description: "Signed deliveries of facts to your receivers (Standard Webhooks)." },
  { name: "Batches", paths: ["/v1/batches"], description: "Files: import, export, reconcile." },
  { name: "Brands", paths: ["/v1/brands"], description: "A brand's settings, and its agent's decisions." },
  {
    name: "Articles",
    paths: ["/v1/articles", "/v1/research", "/v1/usage"],
    description: "Research, drafts, pages, and the tokens they cost.",
  },
  { name: "CRM", paths: ["/v1/crm", "/crm"], description: "Contacts in a CRM, both ways." },
  { name: "Pages", paths: ["/pages"], description: "Published pages, indexes and feeds." },
  {
    name: "Drills",
    paths: ["/embedded"],
    description: "The embedded upstreams of local engines. Without EMBEDDED_CONTROL these routes do not exist.",
  },
];
