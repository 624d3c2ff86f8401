import { type MillraceError, notRetryable } from "millrace";
import * as z from "zod";
import { type OAuth1Keys, oauth1Header } from "./oauth1.ts";
import { type Answer, comeBack } from "./refusal.ts";
import type { PublishedPost } from "./social.ts";
import { type CallOptions, callUpstream, type Upstream } from "./upstream.ts";

const Posted = z.object({ data: z.object({ id: z.string().regex(/^\d{1,19}$/) }) });

/**
 * The first parts of the names of X's rate limit headers, for the limits of a user and of an app. The names end with `-remaining` and
 * `-reset`.
 */
const LIMITS = ["x-rate-limit", "x-user-limit-24hour", "x-app-limit-24hour"] as const;

/** An account on X. */
export interface X {
  /** Posts a text to the account. X has no idempotency key, so the effect class is `once`. */
  post(text: string, options: CallOptions): Promise<PublishedPost>;
}

/** X, by its API v2 and the OAuth 1.0a keys of an app and its user. Unlike the tokens of OAuth 2, these keys do not expire. */
export function xAccount(upstream: Upstream, keys: OAuth1Keys): X {
  return {
    async post(text, options) {
      const path = "/2/tweets";
      const authorization = await oauth1Header(keys, { method: "POST", url: `${upstream.url}${path}` });
      const { data } = await callUpstream(
        upstream,
        {
          method: "POST",
          path,
          headers: { authorization, "content-type": "application/json" },
          body: JSON.stringify({ text }),
          meaning: (answer) => tooMany(answer) ?? duplicate(upstream, answer),
        },
        Posted,
        options,
      );
      return { uri: data.id, url: `https://x.com/i/web/status/${data.id}` };
    },
  };
}

/** The times in X's rate limit headers are seconds since 1970. */
function tooMany({ status, headers }: Answer): MillraceError | undefined {
  if (status !== 429 || headers.has("retry-after")) return undefined;
  const resets = (limits: readonly string[]) => limits.map((limit) => Number(headers.get(`${limit}-reset`) ?? 0) * 1000);
  const used = LIMITS.filter((limit) => headers.get(`${limit}-remaining`) === "0");
  const resetAt = Math.max(0, ...resets(used.length > 0 ? used : LIMITS.slice(0, 1)));
  if (!(resetAt > 0)) return undefined;
  return comeBack(Math.max(resetAt - Date.now(), 0), "The account has reached a limit of X.", status);
}

/** X refuses a text that the account has posted before, even if an earlier attempt with an unknown outcome posted that text. */
function duplicate({ name }: Upstream, { status, text }: Answer): MillraceError | undefined {
  if (status !== 403 || !/duplicate/i.test(text)) return undefined;
  return notRetryable(`${name} has a post with this text already, and X refuses a second one. Look for it in the account.`, status);
}
