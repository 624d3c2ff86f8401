import { limitOf } from "millrace/limits";
import { connect, misconfigured, oneOf, realUrl, required } from "./config.ts";
import { ID_PROPERTY } from "./credentials.ts";
import type { Crm } from "./crm.ts";
import { assertHasCrm } from "./crm-account.ts";
import type { ProvidersEnv } from "./env.ts";
import { hubspotCrm } from "./hubspot.ts";
import { hubspotWindows } from "./hubspot-limits.ts";
import { JSON_FORMATS, LIMIT_FIELDS, openAiText } from "./openai-text.ts";
import { braveSearch, type Search } from "./search.ts";
import type { Text } from "./text.ts";
import { workersAiText } from "./workers-ai.ts";

export {
  CRM_BATCH,
  CRM_FRESH_MS,
  type Crm,
  type CrmFound,
  type CrmOutcome,
  type CrmReading,
  type CrmRefusal,
  type CrmRefusals,
} from "./crm.ts";
export type { ProvidersEnv } from "./env.ts";
export { jsonOf } from "./json.ts";
export type { Page, Pages, PagesKind, PublishedPage } from "./pages.ts";
export { MASTODON_CHARACTERS, mastodonLength, X_CHARACTERS, xLength, xWeight } from "./post-length.ts";
export { publicUrl } from "./public-url.ts";
export { recordKey } from "./record-key.ts";
export type { Search, SearchResult } from "./search.ts";
export type { PublishedPost } from "./social.ts";
export {
  accountTarget,
  faultOf,
  isRepeatable,
  pageAddress,
  pages,
  type SiteTarget,
  type SocialTarget,
  siteTarget,
  social,
} from "./targets.ts";
export type { Text, TextAnswer, TextRequest } from "./text.ts";
export type { CallOptions } from "./upstream.ts";

const EMBEDDED_MODEL = "embedded-writer-1";

/** The search engine: Brave, or the embedded program. @throws `config_invalid` */
export function search(env: ProvidersEnv, tenantId?: string): Search {
  return braveSearch(connect(env, { name: "search", at: "SEARCH_URL", secret: "SEARCH_TOKEN", tenantId }));
}

/** The provider of texts: a server with OpenAI's format, Workers AI, or the embedded program. @throws `config_invalid` */
export function text(env: ProvidersEnv, tenantId?: string): Text {
  const provider = env.TEXT_PROVIDER || "openai";
  if (provider === "workers-ai") {
    if (!env.AI)
      throw misconfigured('TEXT_PROVIDER is "workers-ai", but there is no AI binding. Add "ai": { "binding": "AI" } to wrangler.jsonc.');
    return workersAiText(env.AI, required(env, "TEXT_MODEL"), env.TEXT_GATEWAY || "default");
  }
  if (provider !== "openai") throw misconfigured(`TEXT_PROVIDER is "${provider}". Set it to "openai" or "workers-ai".`);
  const model = realUrl(env.TEXT_URL) ? required(env, "TEXT_MODEL") : EMBEDDED_MODEL;
  const dialect = { json: oneOf(env, "TEXT_JSON", JSON_FORMATS), limit: oneOf(env, "TEXT_LIMIT", LIMIT_FIELDS) };
  return openAiText(connect(env, { name: "text", at: "TEXT_URL", secret: "TEXT_TOKEN", tenantId }), model, dialect);
}

/**
 * Maximum time that a call with 100 records takes to reach the CRM. This margin reduces the rate by a sixth, because 100 calls take 12
 * seconds in place of 10 seconds.
 */
const CRM_MARGIN_MS = 2_000;

/**
 * Returns the CRM of a tenant: HubSpot, or the embedded CRM with the same API. All callers of the CRM share its rate limit. @throws
 * `config_invalid`, also for a tenant whose contacts are not in it
 */
export function crm(env: ProvidersEnv, tenantId: string): Crm {
  assertHasCrm(env, tenantId);
  const { RATE_LIMIT } = env;
  if (!RATE_LIMIT) throw misconfigured("There is no Durable Object bound as RATE_LIMIT. Add it to wrangler.jsonc.");
  const upstream = connect(env, { name: "crm", at: "CRM_URL", secret: "CRM_TOKEN", embedded: "EMBEDDED_CRM", tenantId });
  const limit = limitOf({ RATE_LIMIT }, `crm ${upstream.url}`, hubspotWindows(env), { marginMs: CRM_MARGIN_MS, tenantId });
  return hubspotCrm(upstream, env.CRM_ID_PROPERTY || ID_PROPERTY, limit);
}
