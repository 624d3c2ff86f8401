import type { Schema } from "millrace/http";

/** What each migration of the app makes, for `/healthz`. The engine has its own list. */
export const schema: Schema = {
  "0002_brand": "research",
  "0003_facts": "facts",
  "0005_rules": "qualification_rules",
  "0006_webhooks": "webhook_versions",
  "0007_batches": "contacts",
  "0009_brands": "brands",
  "0010_articles": "articles.revision",
  "0011_crm": "crm_links",
  "0012_text": "text_calls",
  "0027_bounds": "budget_accounts",
  "0030_crm_sends": "crm_sends",
  "0031_forgotten": "forgotten",
  "0035_redeliveries": "webhook_deliveries.redelivery",
  "0036_crm_accounts": "crm_accounts",
  "0039_page_stores": "articles.store",
  "0040_forgettings_taken_over": "forgettings.instance_id",
  "0041_redelivering_instances": "webhook_deliveries.instance_id",
};
