import { erasure } from "millrace/operate";

type TextTable = (typeof erasure.texts)[number];

/** The app's tables with rows that may mention a person without belonging to that person. */
const APP_TEXTS: readonly TextTable[] = [
  { table: "webhook_deliveries", key: ["id"], texts: ["fact_id", "attempts"], order: ["endpoint_id", "matched_at", "id"] },
  { table: "crm_failures", key: ["sync_id", "contact_id"], texts: ["message"], order: ["sync_id", "contact_id"] },
  { table: "batches", key: ["batch_id"], texts: ["cancel_reason"], order: ["created_at", "batch_id"] },
  { table: "batch_keys", key: ["batch_id", "key"], texts: ["key"], order: ["batch_id", "key"] },
];

/** The projection of the ledgers is searched directly after the ledgers. */
const FACTS: TextTable = {
  table: "facts",
  key: ["entity", "sequence", "fact_id"],
  texts: ["fact_id", "body"],
  order: ["entity", "sequence", "fact_id"],
};

/** The tables to search. The rows of these tables remain, without the person's identifiers. */
export const TEXT_TABLES: readonly TextTable[] = [FACTS, ...erasure.texts, ...APP_TEXTS];

/** The app's tables with a tenant column. For each table, the list contains the columns that identify a row within the tenant. */
export const APP_TENANT_TABLES: Readonly<Record<string, readonly string[]>> = {
  article_pages: ["content_id", "site"],
  article_posts: ["content_id", "account"],
  articles: ["id"],
  batch_keys: ["batch_id", "key"],
  batch_parts: ["batch_id", "report", "part"],
  batches: ["batch_id"],
  brands: ["brand"],
  budget_accounts: ["account"],
  contacts: ["contact_id"],
  crm_accounts: ["tenant_id"],
  crm_failures: ["sync_id", "contact_id"],
  crm_links: ["contact_id"],
  crm_sends: ["send_id"],
  crm_syncs: ["sync_id"],
  facts: ["entity", "sequence", "fact_id"],
  forgettings: ["pseudonym"],
  forgotten: ["pseudonym"],
  ledgers: ["entity"],
  object_sizes: ["binding", "object_id"],
  qualification_rules: ["version"],
  research: ["id"],
  text_calls: ["content_id", "attempt"],
  uploads: ["hour"],
  webhook_deliveries: ["id"],
  webhook_secrets: ["endpoint_id", "generation"],
  webhook_versions: ["endpoint_id", "version"],
};

/** Tables whose rows belong to a single person, or contain a person's data on the way to the CRM. These rows are deleted. */
export const PERSON_TABLES = ["contacts", "crm_links", "crm_failures", "crm_sends", "forgettings"] as const;

/** Returns a table's name in the audit and the API, which is the name without the engine's prefix `millrace_`. */
export const withoutPrefix = (table: string) => table.replace(/^millrace_/, "");
