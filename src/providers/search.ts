import { beginning } from "millrace";
import * as z from "zod";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

export interface SearchResult {
  /** Its address where the engine has none. */
  title: string;
  /** Always http or https, so that it is safe to link. */
  url: string;
  /** Plain text; empty when the engine has none. */
  description: string;
}

/** Web search. */
export interface Search {
  /** The first 5 results, best first; none is an empty list. Reads only, but every call is paid for. */
  search(query: string, options: CallOptions): Promise<SearchResult[]>;
}

const RESULT_COUNT = 5;
/** What is kept of a result, in characters: the prompt and the record have to hold five of them. */
const MOST = { title: 300, url: 2000, description: 3000 };
const upTo = (most: number) =>
  z
    .string()
    .transform((text) => beginning(text, most))
    .catch("");

// What has arrived is paid for: a field that is missing or odd costs that field, one without an address that can be linked the result,
// never the search.
const Result = z.object({
  title: upTo(MOST.title),
  url: z.url({ protocol: /^https?$/ }).max(MOST.url),
  description: upTo(MOST.description),
});

// Brave leaves `web` out when it found nothing. Another service's JSON is no search that found nothing: an article would be written of it.
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
    return { listed: listed.length, results: usable.map((one) => ({ ...one, title: one.title || beginning(one.url, MOST.title) })) };
  })
  .refine(({ listed, results }) => listed === 0 || results.length > 0, "no result has a `url` to link");

/** Brave Search: `GET /res/v1/web/search`. Sends no key, as Brave has none: a repeat is a second paid call. */
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
