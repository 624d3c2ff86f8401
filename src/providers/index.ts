import { MillraceError } from "../engine/index.ts";
import { EMBEDDED_HANDLE, EMBEDDED_TOKEN } from "./embedded/credentials.ts";
import { publicUrl } from "./embedded/public-url.ts";
import { JSON_FORMATS, LIMIT_FIELDS, openAiText } from "./openai-text.ts";
import { httpPages, type Pages } from "./pages.ts";
import { braveSearch, type Search } from "./search.ts";
import { blueskySocial, type Social } from "./social.ts";
import type { Text } from "./text.ts";
import type { Upstream } from "./upstream.ts";
import { type WorkersAi, workersAiText } from "./workers-ai.ts";

export { publicUrl } from "./embedded/public-url.ts";
export type { Page, Pages, PublishedPage } from "./pages.ts";
export { recordKey } from "./record-key.ts";
export type { Search, SearchResult } from "./search.ts";
export type { Social } from "./social.ts";
export type { Text, TextAnswer, TextRequest } from "./text.ts";

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
  PAGES_URL?: string;
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
    return workersAiText(env.AI, required(env, "TEXT_MODEL"), env.TEXT_GATEWAY || "default");
  }
  if (provider !== "openai") throw misconfigured(`TEXT_PROVIDER is "${provider}". Set it to "openai" or "workers-ai".`);
  const model = realUrl(env.TEXT_URL) ? required(env, "TEXT_MODEL") : EMBEDDED_MODEL;
  const dialect = { json: oneOf(env, "TEXT_JSON", JSON_FORMATS), limit: oneOf(env, "TEXT_LIMIT", LIMIT_FIELDS) };
  return openAiText(connect(env, "text", "TEXT_URL", "TEXT_TOKEN"), model, dialect);
}

/** Publishing: a page store over HTTP, or the embedded one on R2. @throws `config_invalid` */
export function pages(env: ProvidersEnv): Pages {
  return httpPages(connect(env, "pages", "PAGES_URL", "PAGES_TOKEN"));
}

/** Where a page is going to be read. Undefined where the store makes the addresses and says them only afterwards: any but the embedded one. */
export function pageAddress(env: ProvidersEnv, path: string): string | undefined {
  return realUrl(env.PAGES_URL) ? undefined : publicUrl(env, `pages/${path}`);
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
