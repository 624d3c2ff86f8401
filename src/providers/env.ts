import type { RateLimit } from "millrace/limits";
import type { CrmAccountVars } from "./crm-account.ts";
import type { WorkersAi } from "./workers-ai.ts";

/**
 * The variables, secrets and bindings that the providers read. A `*_URL` that is unset or starts with `embedded:` means the local default.
 */
export interface ProvidersEnv extends CrmAccountVars {
  /** The binding of the embedded programs, which is used if an upstream has no URL. */
  UPSTREAMS?: Pick<Fetcher, "fetch">;
  /**
   * A Worker that forwards the calls of search, text and CRM with the Worker's own credentials. The header `millrace-tenant` selects the
   * credentials.
   */
  KEY_PROXY?: Pick<Fetcher, "fetch">;
  SEARCH_URL?: string;
  SEARCH_TOKEN?: string;
  /** The maximum cost of one search, in whole cents. If the variable is unset, searches are neither limited nor counted. */
  SEARCH_CENTS?: string;
  /**
   * The provider of generated text. The default `openai` is any server with chat completions, including the embedded writer. The other
   * value is `workers-ai`.
   */
  TEXT_PROVIDER?: string;
  TEXT_URL?: string;
  TEXT_TOKEN?: string;
  TEXT_MODEL?: string;
  /**
   * The maximum cost of one answer of the model, in whole cents. If the variable is unset, the answers of the model have no budget, and no
   * cost is recorded.
   */
  TEXT_CENTS?: string;
  /**
   * How JSON is requested from the server of the text model: `json_schema` (default) or `json_object`. Use `none` if the server supports
   * neither format.
   */
  TEXT_JSON?: string;
  /**
   * The field of a request that contains the token limit: `max_completion_tokens` (default), or `max_tokens` for servers that do not
   * support the default.
   */
  TEXT_LIMIT?: string;
  /**
   * The AI Gateway of `workers-ai`. The cache of the gateway uses the engine's idempotency key. Default: `default`. The value `none` means
   * no gateway.
   */
  TEXT_GATEWAY?: string;
  /** The Workers AI binding, which only `workers-ai` needs. */
  AI?: WorkersAi;
  /** The public URL of this Worker. Default: `http://localhost:8787`. */
  PUBLIC_URL?: string;
  /** The provider of pages. The default `http` is a page store over HTTP or the embedded page store. The other value is `wordpress`. */
  PAGES_PROVIDER?: string;
  PAGES_URL?: string;
  /** The WordPress user, which only `wordpress` needs. */
  PAGES_USER?: string;
  PAGES_TOKEN?: string;
  SOCIAL_URL?: string;
  SOCIAL_HANDLE?: string;
  SOCIAL_PASSWORD?: string;
  /** The binding of the embedded CRM, which is used if CRM_URL is not set. */
  EMBEDDED_CRM?: Pick<Fetcher, "fetch">;
  /** The rate limit that all callers of the CRM share. */
  RATE_LIMIT?: DurableObjectNamespace<RateLimit>;
  CRM_TOKEN?: string;
  /** The property of contacts and companies that contains the app's key for a record. Default `millrace_id`. */
  CRM_ID_PROPERTY?: string;
  /** The maximum number of calls that the CRM allows in any 10 seconds. Default 100. */
  CRM_BURST?: string;
  /** The maximum number of calls that the CRM allows in a day. Default 250000. */
  CRM_DAILY?: string;
}
