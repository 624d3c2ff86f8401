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

// What has arrived is paid for: a field that is missing or odd costs that field, one without an address that can be linked the result,
// never the search.
const Result = z.object({
  title: z.string().catch(""),
  url: z.url({ protocol: /^https?$/ }),
  description: z.string().catch(""),
});

// Brave leaves `web` out when it found nothing.
const WebSearch = z.object({
  web: z
    .object({ results: z.array(z.unknown()).catch([]) })
    .nullish()
    .catch(null),
});

/** Brave Search: `GET /res/v1/web/search`. Sends no key, as Brave has none: a repeat is a second paid call. */
export function braveSearch(upstream: Upstream): Search {
  return {
    async search(query, options) {
      const parameters = new URLSearchParams({ q: query, count: String(RESULT_COUNT), text_decorations: "false" });
      const answer = await callUpstream(
        upstream,
        {
          method: "GET",
          path: `/res/v1/web/search?${parameters}`,
          headers: { accept: "application/json", "x-subscription-token": upstream.credential.value },
        },
        WebSearch,
        options,
      );
      return (answer.web?.results ?? []).flatMap((one) => {
        const { data } = Result.safeParse(one);
        return data ? [{ ...data, title: data.title || data.url }] : [];
      });
    },
  };
}
