import { texts } from "millrace";
import * as z from "zod";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

export interface SearchResult {
  /** The result's title, or the result's URL if the engine returns no title. */
  title: string;
  /** The result's URL. The scheme is always http or https, so that a link to the URL is safe. */
  url: string;
  /** The result's description as plain text; empty if the engine returns no description. */
  description: string;
}

/** A web search engine. */
export interface Search {
  /**
   * Returns the first 5 results, best first. The list is empty if the search finds nothing. A search only reads, but every call is paid
   * for.
   */
  search(query: string, options: CallOptions): Promise<SearchResult[]>;
}

const RESULT_COUNT = 5;
/** Maximum stored characters of a search result's fields. The limits ensure that five results fit into the prompt and the record. */
const MOST = { title: 300, url: 2000, description: 3000 };
const upTo = (most: number) =>
  z
    .string()
    .transform((text) => texts.beginning(text, most))
    .catch("");

// The search is paid for, so an invalid field never fails the search. A missing or invalid field is left empty, and a result without a
// valid URL is left out.
const Result = z.object({
  title: upTo(MOST.title),
  url: z.url({ protocol: /^https?$/ }).max(MOST.url),
  description: upTo(MOST.description),
});

// Brave omits `web` if a search found nothing. Another service's JSON must not count as an empty search, because an article would be
// written from it.
const WebSearch = z
  .object({
    type: z.unknown().optional(),
    query: z.looseObject({}).nullish().catch(null),
    web: z
      .object({ results: z.array(z.unknown()).catch([]) })
      .nullish()
      .catch(null),
  })
  .refine(({ type, query, web }) => type === "search" || query || web, 'is not of `type` "search", and has neither `web` nor `query`')
  .transform(({ web }) => {
    const listed = web?.results ?? [];
    const usable = listed.flatMap((one) => Result.safeParse(one).data ?? []).slice(0, RESULT_COUNT);
    return { listed: listed.length, results: usable.map((one) => ({ ...one, title: one.title || texts.beginning(one.url, MOST.title) })) };
  })
  .refine(({ listed, results }) => listed === 0 || results.length > 0, "no result has a `url` to link");

/** Brave Search: `GET /res/v1/web/search`. Brave has no idempotency keys, so a repeated call is paid for again. */
export function braveSearch(upstream: Upstream): Search {
  return {
    async search(query, options) {
      const parameters = new URLSearchParams({ q: query, count: String(RESULT_COUNT), text_decorations: "false" });
      const { results } = await callUpstream(
        upstream,
        {
          method: "GET",
          path: `/res/v1/web/search?${parameters}`,
          headers: { accept: "application/json", "x-subscription-token": upstream.credential.value },
        },
        WebSearch,
        options,
      );
      return results;
    },
  };
}
