import type { LimitEnv } from "millrace";
import type { CrmAccountVars } from "./crm-account.ts";
import type { WorkersAi } from "./workers-ai.ts";

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
