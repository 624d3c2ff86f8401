import type { LimitEnv } from "millrace";
import type { CrmAccountVars } from "./crm-account.ts";
import type { WorkersAi } from "./workers-ai.ts";

/** The vars, secrets and bindings the providers read. A `*_URL` that is unset or starts with `embedded:` means the local default. */
export interface ProvidersEnv extends CrmAccountVars {
  /** The embedded programs, used if no URL is set. */
  UPSTREAMS?: Pick<Fetcher, "fetch">;
  /** A Worker that sends the calls of search, text and CRM with its own credentials, chosen by the header `millrace-tenant`. */
  KEY_PROXY?: Pick<Fetcher, "fetch">;
  SEARCH_URL?: string;
  SEARCH_TOKEN?: string;
  /** The most that one search may cost, in whole cents. If unset, searches are neither limited nor counted. */
  SEARCH_CENTS?: string;
  /** `openai` (default: any server with chat completions, including the embedded writer) or `workers-ai`. */
  TEXT_PROVIDER?: string;
  TEXT_URL?: string;
  TEXT_TOKEN?: string;
  TEXT_MODEL?: string;
  /** The most that one answer may cost, in whole cents. If unset, the answers of the model have no budget, and no cost is recorded. */
  TEXT_CENTS?: string;
  /** How JSON is requested from the server: `json_schema` (default), `json_object`, or `none` if it supports neither. */
  TEXT_JSON?: string;
  /** The request's field for the token limit: `max_completion_tokens` (default), or `max_tokens` for servers that only support that. */
  TEXT_LIMIT?: string;
  /** The AI Gateway of `workers-ai`; its cache uses our key. Default `default`; `none` uses no gateway. */
  TEXT_GATEWAY?: string;
  /** The Workers AI binding; needed by `workers-ai` only. */
  AI?: WorkersAi;
  /** The public URL of this Worker. Default: `http://localhost:8787`. */
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
  /** The embedded CRM, used if CRM_URL is not set. */
  EMBEDDED_CRM?: Pick<Fetcher, "fetch">;
  /** The rate limit that all callers of the CRM share. */
  RATE_LIMIT?: LimitEnv["RATE_LIMIT"];
  CRM_TOKEN?: string;
  /** The property of contacts and companies that holds our key for a record. Default `millrace_id`. */
  CRM_ID_PROPERTY?: string;
  /** Calls that the CRM allows in any 10 seconds. Default 100. */
  CRM_BURST?: string;
  /** Calls that the CRM allows in a day. Default 250000. */
  CRM_DAILY?: string;
}
