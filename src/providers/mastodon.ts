import { MillraceError } from "millrace";
import * as z from "zod";
import { type Answer, comeBack } from "./refusal.ts";
import type { PublishedPost } from "./social.ts";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

/** `url` is null for a status that only other servers show. */
const Status = z.object({
  id: z.string().min(1),
  uri: z.string().min(1),
  url: z.url().nullish(),
  created_at: z.iso.datetime(),
  content: z.string(),
});
const Account = z.object({ id: z.string().min(1) });

/** The number of statuses in a page, and the maximum number of pages that one search reads: a thousand statuses. */
const PAGE = 40;
const MAX_PAGES = 25;
/** Maximum difference between the clock of this app and the clock of the Mastodon server. */
const SKEW_MS = 10 * 60_000;

/** An account on a server with Mastodon's API. */
export interface Mastodon {
  /** Posts a text to the account. The server recognises a repeated key for one hour. Before a later repetition, search for the post. */
  post(text: string, options: CallOptions): Promise<PublishedPost>;
  /** Finds a status of the account that is newer than a time (ms) and links to one of these URLs; undefined if no such status exists. */
  find(urls: readonly string[], sinceMs: number, options: CallOptions): Promise<PublishedPost | undefined>;
}

/** Mastodon and compatible servers, by an access token with the scopes `read` and `write:statuses`. */
export function mastodonAccount(upstream: Upstream): Mastodon {
  const headers = { authorization: `Bearer ${upstream.credential.value}`, accept: "application/json" };
  const get = <T>(path: string, answer: z.ZodType<T>, options: CallOptions) =>
    callUpstream(upstream, { method: "GET", path, headers, meaning: tooMany }, answer, options);

  return {
    async post(text, options) {
      const status = await callUpstream(
        upstream,
        {
          method: "POST",
          path: "/api/v1/statuses",
          headers: { ...headers, "content-type": "application/json", "idempotency-key": options.key },
          body: JSON.stringify({ status: text, visibility: "public" }),
          meaning: tooMany,
        },
        Status,
        options,
      );
      return postOf(status);
    },

    async find(urls, sinceMs, options) {
      const links = urls.map((url) => `"${url.replaceAll("&", "&amp;")}"`);
      const { id } = await get("/api/v1/accounts/verify_credentials", Account, options);
      let before: string | undefined;
      for (let page = 0; page < MAX_PAGES; page++) {
        const query = new URLSearchParams({
          limit: String(PAGE),
          exclude_reblogs: "true",
          ...(before !== undefined && { max_id: before }),
        });
        const statuses = await get(`/api/v1/accounts/${encodeURIComponent(id)}/statuses?${query}`, z.array(Status), options);
        const found = statuses.find(({ content }) => links.some((link) => content.includes(link)));
        if (found) return postOf(found);
        const last = statuses.at(-1);
        if (!last || Date.parse(last.created_at) < sinceMs - SKEW_MS) return undefined;
        before = last.id;
      }
      throw new MillraceError(
        "unavailable",
        `${upstream.name} has more than ${PAGE * MAX_PAGES} posts since the request, and none of the newest links to ${urls.join(" or ")}: look for it there.`,
      );
    },
  };
}

function postOf({ uri, url }: z.infer<typeof Status>): PublishedPost {
  return { uri, url: url ?? uri };
}

/** Mastodon's 429 response has no `Retry-After`. The header `X-RateLimit-Reset` of the response is a date. */
function tooMany({ status, headers }: Answer): MillraceError | undefined {
  const resetAt = Date.parse(headers.get("x-ratelimit-reset") ?? "");
  if (status !== 429 || headers.has("retry-after") || Number.isNaN(resetAt)) return undefined;
  return comeBack(Math.max(resetAt - Date.now(), 0), "The account has reached the limit of its server.", status);
}
