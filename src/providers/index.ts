import { MillraceError } from "../engine/index.ts";
import { EMBEDDED_HANDLE, EMBEDDED_TOKEN } from "./embedded/credentials.ts";
import { httpPages, type Pages } from "./pages.ts";
import { braveSearch, type Search } from "./search.ts";
import { blueskySocial, type Social } from "./social.ts";
import { openAiText, type Text } from "./text.ts";
import type { Upstream } from "./upstream.ts";
import { wordpressPages } from "./wordpress.ts";
import { type WorkersAi, workersAiText } from "./workers-ai.ts";

export type { Page, Pages, PublishedPage } from "./pages.ts";
export { recordKey } from "./record-key.ts";
export type { Search, SearchResult } from "./search.ts";
export type { Social } from "./social.ts";
export type { GeneratedText, Text } from "./text.ts";

/** The vars, secrets and bindings the providers read. A `*_URL` that is unset or starts with `embedded:` means the local default. */
export interface ProvidersEnv {
  /** The embedded programs, reached where no URL is set. */
  UPSTREAMS?: Pick<Fetcher, "fetch">;
  SEARCH_URL?: string;
  SEARCH_TOKEN?: string;
  /** `openai` (default: anything that speaks chat completions, the embedded writer too) or `workers-ai`. */
  TEXT_PROVIDER?: string;
  TEXT_URL?: string;
  TEXT_TOKEN?: string;
  TEXT_MODEL?: string;
  /** The Workers AI binding; needed by `workers-ai` only. */
  AI?: WorkersAi;
  /** `http` (default: a page store, the embedded one too) or `wordpress`. */
  PAGES_PROVIDER?: string;
  PAGES_URL?: string;
  /** The WordPress user; needed by `wordpress` only. */
  PAGES_USER?: string;
  PAGES_TOKEN?: string;
  SOCIAL_URL?: string;
  SOCIAL_HANDLE?: string;
  SOCIAL_PASSWORD?: string;
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
    return workersAiText(env.AI, required(env, "TEXT_MODEL"));
  }
  if (provider !== "openai") throw misconfigured(`TEXT_PROVIDER is "${provider}". Set it to "openai" or "workers-ai".`);
  const model = realUrl(env.TEXT_URL) ? required(env, "TEXT_MODEL") : EMBEDDED_MODEL;
  return openAiText(connect(env, "text", "TEXT_URL", "TEXT_TOKEN"), model);
}

/** Publishing: a page store over HTTP, WordPress, or the embedded store on R2. @throws `config_invalid` */
export function pages(env: ProvidersEnv): Pages {
  const provider = env.PAGES_PROVIDER || "http";
  if (provider === "wordpress") {
    if (!realUrl(env.PAGES_URL)) throw misconfigured('PAGES_PROVIDER is "wordpress", but PAGES_URL does not say where the site is.');
    return wordpressPages(connect(env, "pages", "PAGES_URL", "PAGES_TOKEN"), required(env, "PAGES_USER"));
  }
  if (provider !== "http") throw misconfigured(`PAGES_PROVIDER is "${provider}". Set it to "http" or "wordpress".`);
  return httpPages(connect(env, "pages", "PAGES_URL", "PAGES_TOKEN"));
}

/** Social posting: Bluesky or another AT Protocol server, or the embedded one. @throws `config_invalid` */
export function social(env: ProvidersEnv): Social {
  const handle = realUrl(env.SOCIAL_URL) ? required(env, "SOCIAL_HANDLE") : env.SOCIAL_HANDLE || EMBEDDED_HANDLE;
  return blueskySocial(connect(env, "social", "SOCIAL_URL", "SOCIAL_PASSWORD"), handle);
}

type Variable = Exclude<keyof ProvidersEnv, "UPSTREAMS" | "AI">;

function connect(env: ProvidersEnv, name: string, urlVariable: Variable, variable: Variable): Upstream {
  const url = realUrl(env[urlVariable]);
  if (url === undefined) {
    const binding = env.UPSTREAMS;
    if (!binding) throw misconfigured(`${urlVariable} is not set, and neither is the service binding UPSTREAMS. Set one of them.`);
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

function required(env: ProvidersEnv, variable: Variable): string {
  const value = env[variable];
  if (!value) throw misconfigured(`${variable} is not set. Set it with: wrangler secret put ${variable} (locally: a line in .dev.vars).`);
  return value;
}

function misconfigured(message: string): MillraceError {
  return new MillraceError("config_invalid", message);
}
