import { type LimitEnv, limitOf, MillraceError } from "millrace";
import { EMBEDDED_HANDLE, EMBEDDED_TOKEN, ID_PROPERTY } from "./credentials.ts";
import type { Crm } from "./crm.ts";
import { assertHasCrm, type CrmAccountVars } from "./crm-account.ts";
import { hubspotCrm } from "./hubspot.ts";
import { hubspotWindows } from "./hubspot-limits.ts";
import { JSON_FORMATS, LIMIT_FIELDS, openAiText } from "./openai-text.ts";
import { httpPages, type Pages } from "./pages.ts";
import { publicUrl } from "./public-url.ts";
import { braveSearch, type Search } from "./search.ts";
import { blueskySocial, type Social } from "./social.ts";
import type { Text } from "./text.ts";
import type { Upstream } from "./upstream.ts";
import { wordpressPages } from "./wordpress.ts";
import { type WorkersAi, workersAiText } from "./workers-ai.ts";

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
export type { Page, Pages, PublishedPage } from "./pages.ts";
export { publicUrl } from "./public-url.ts";
export { recordKey } from "./record-key.ts";
export type { Search, SearchResult } from "./search.ts";
export type { Social } from "./social.ts";
export type { Text, TextAnswer, TextRequest } from "./text.ts";
export type { CallOptions } from "./upstream.ts";

/** The vars, secrets and bindings the providers read. A `*_URL` that is unset or starts with `embedded:` means the local default. */
export interface ProvidersEnv extends CrmAccountVars {
  /** The embedded programs, reached where no URL is set. */
  UPSTREAMS?: Pick<Fetcher, "fetch">;
  SEARCH_URL?: string;
  SEARCH_TOKEN?: string;
  /** What one search may cost at most, in whole cents. Unset, searches are neither bounded nor counted. */
  SEARCH_CENTS?: string;
  /** `openai` (default: anything that speaks chat completions, the embedded writer too) or `workers-ai`. */
  TEXT_PROVIDER?: string;
  TEXT_URL?: string;
  TEXT_TOKEN?: string;
  TEXT_MODEL?: string;
  /** What one answer may cost at most, in whole cents. Unset, answers are neither bounded nor counted in money. */
  TEXT_CENTS?: string;
  /** How the server is asked for JSON: `json_schema` (default), `json_object`, or `none` where it knows neither. */
  TEXT_JSON?: string;
  /** How the server is told the most tokens of an answer: `max_completion_tokens` (default), or `max_tokens` where it knows only that. */
  TEXT_LIMIT?: string;
  /** The AI Gateway that `workers-ai` goes through, whose cache knows our key. Default `default`; `none` goes without. */
  TEXT_GATEWAY?: string;
  /** The Workers AI binding; needed by `workers-ai` only. */
  AI?: WorkersAi;
  /** Where people reach this Worker. Default: `http://localhost:8787`. */
  PUBLIC_URL?: string;
  /** `http` (default: a page store, the embedded one too) or `wordpress`. */
  PAGES_PROVIDER?: string;
  PAGES_URL?: string;
  /** The WordPress user; needed by `wordpress` only. */
  PAGES_USER?: string;
  PAGES_TOKEN?: string;
  SOCIAL_URL?: string;
  SOCIAL_HANDLE?: string;
  SOCIAL_PASSWORD?: string;
  /** The embedded CRM, reached where CRM_URL is not set. */
  EMBEDDED_CRM?: Pick<Fetcher, "fetch">;
  /** Where the callers of the CRM keep count of their calls together. */
  RATE_LIMIT?: LimitEnv["RATE_LIMIT"];
  CRM_TOKEN?: string;
  /** The property of contacts and companies that holds our name for a record. Default `millrace_id`. */
  CRM_ID_PROPERTY?: string;
  /** Calls that the CRM allows in any 10 seconds. Default 100. */
  CRM_BURST?: string;
  /** Calls that the CRM allows in a day. Default 250000. */
  CRM_DAILY?: string;
}

const EMBEDDED_MODEL = "embedded-writer-1";

/** Web search: Brave, or the embedded program. @throws `config_invalid` */
export function search(env: ProvidersEnv): Search {
  return braveSearch(connect(env, "search", "SEARCH_URL", "SEARCH_TOKEN"));
}

/** Text generation: OpenAI's format, Workers AI, or the embedded program. @throws `config_invalid` */
export function text(env: ProvidersEnv): Text {
  const provider = env.TEXT_PROVIDER || "openai";
  if (provider === "workers-ai") {
    if (!env.AI)
      throw misconfigured('TEXT_PROVIDER is "workers-ai", but there is no AI binding. Add "ai": { "binding": "AI" } to wrangler.jsonc.');
    return workersAiText(env.AI, required(env, "TEXT_MODEL"), env.TEXT_GATEWAY || "default");
  }
  if (provider !== "openai") throw misconfigured(`TEXT_PROVIDER is "${provider}". Set it to "openai" or "workers-ai".`);
  const model = realUrl(env.TEXT_URL) ? required(env, "TEXT_MODEL") : EMBEDDED_MODEL;
  const dialect = { json: oneOf(env, "TEXT_JSON", JSON_FORMATS), limit: oneOf(env, "TEXT_LIMIT", LIMIT_FIELDS) };
  return openAiText(connect(env, "text", "TEXT_URL", "TEXT_TOKEN"), model, dialect);
}

/** Publishing: a page store over HTTP, WordPress, or the embedded store on R2. @throws `config_invalid` */
export function pages(env: ProvidersEnv): Pages {
  const provider = env.PAGES_PROVIDER || "http";
  if (provider === "wordpress") {
    if (!realUrl(env.PAGES_URL)) throw misconfigured('PAGES_PROVIDER is "wordpress", but PAGES_URL does not say where the site is.');
    return wordpressPages(connect(env, "pages", "PAGES_URL", "PAGES_TOKEN"), pageStore(env, provider), required(env, "PAGES_USER"));
  }
  if (provider !== "http") throw misconfigured(`PAGES_PROVIDER is "${provider}". Set it to "http" or "wordpress".`);
  return httpPages(connect(env, "pages", "PAGES_URL", "PAGES_TOKEN"), pageStore(env, provider));
}

/**
 * The name of a page store: `embedded`, or its kind, host and path. The scheme says nothing of which one it is, and a password is nobody's
 * business.
 */
function pageStore(env: ProvidersEnv, kind: string): string {
  const url = realUrl(env.PAGES_URL);
  if (url === undefined) return "embedded";
  const { host, pathname } = new URL(url);
  return `${kind} ${host}${pathname.replace(/\/+$/, "")}`;
}

/**
 * Where a page is going to be read. Undefined where the store makes the addresses and says them only afterwards: any but the embedded one.
 */
export function pageAddress(env: ProvidersEnv, path: string): string | undefined {
  return realUrl(env.PAGES_URL) ? undefined : publicUrl(env, `pages/${path}`);
}

/** Social posting: Bluesky or another AT Protocol server, or the embedded one. @throws `config_invalid` */
export function social(env: ProvidersEnv): Social {
  const handle = realUrl(env.SOCIAL_URL) ? required(env, "SOCIAL_HANDLE") : env.SOCIAL_HANDLE || EMBEDDED_HANDLE;
  return blueskySocial(connect(env, "social", "SOCIAL_URL", "SOCIAL_PASSWORD"), handle);
}

/** A call of 100 records may take this long to reach the CRM. It costs a sixth of the burst: 100 in 12 seconds instead of 10. */
const CRM_MARGIN_MS = 2_000;

/**
 * A tenant's customers: HubSpot, or the embedded CRM, which speaks the same. All callers share its limit. @throws `config_invalid`, also
 * for a tenant whose CRM it is not
 */
export function crm(env: ProvidersEnv, tenantId: string): Crm {
  assertHasCrm(env, tenantId);
  const { RATE_LIMIT } = env;
  if (!RATE_LIMIT) throw misconfigured("There is no Durable Object bound as RATE_LIMIT. Add it to wrangler.jsonc.");
  const upstream = connect(env, "crm", "CRM_URL", "CRM_TOKEN", "EMBEDDED_CRM");
  const limit = limitOf({ RATE_LIMIT }, `crm ${upstream.url}`, hubspotWindows(env), { marginMs: CRM_MARGIN_MS });
  return hubspotCrm(upstream, env.CRM_ID_PROPERTY || ID_PROPERTY, limit);
}

type Binding = "UPSTREAMS" | "EMBEDDED_CRM";
type Variable = Exclude<keyof ProvidersEnv, Binding | "AI" | "RATE_LIMIT">;

function connect(env: ProvidersEnv, name: string, urlVariable: Variable, variable: Variable, bound: Binding = "UPSTREAMS"): Upstream {
  const url = realUrl(env[urlVariable]);
  if (url === undefined) {
    const binding = env[bound];
    if (!binding) throw misconfigured(`${urlVariable} is not set, and neither is the service binding ${bound}. Set one of them.`);
    return {
      name,
      url: `https://${name}.embedded`,
      credential: { variable, value: env[variable] || EMBEDDED_TOKEN },
      fetch: (request) => binding.fetch(request),
    };
  }
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? "")) throw misconfigured(`${urlVariable} is not an http(s) address.`);
  return { name, url, credential: { variable, value: required(env, variable) }, fetch: (request) => fetch(request) };
}

/** The address of a program outside; undefined where the embedded one is meant. */
function realUrl(url: string | undefined): string | undefined {
  return !url || url.startsWith("embedded:") ? undefined : url;
}

/** One of the words a variable may say; the first when it is not set. */
function oneOf<Word extends string>(env: ProvidersEnv, variable: Variable, words: readonly [Word, ...Word[]]): Word {
  const said = env[variable];
  const word = said ? words.find((known) => known === said) : words[0];
  if (!word) throw misconfigured(`${variable} is "${said}". Set it to one of: ${words.join(", ")}.`);
  return word;
}

function required(env: ProvidersEnv, variable: Variable): string {
  const value = env[variable];
  if (!value) throw misconfigured(`${variable} is not set. Set it with: wrangler secret put ${variable} (locally: a line in .dev.vars).`);
  return value;
}

function misconfigured(message: string): MillraceError {
  return new MillraceError("config_invalid", message);
}
