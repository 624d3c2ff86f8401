/** The demo's job: what is asked for, which part is made to fail, and what must be true in the end. */
export const BRAND = "acme";
export const KEYWORDS = ["cold brew", "coffee grinders", "milk foam"] as const;
export const UNLUCKY = KEYWORDS[0];

/** Its page cannot be stored, however often it is tried, until the rule is lifted. */
export const OUTAGE = { upstream: "pages", match: `${BRAND}/${UNLUCKY.replaceAll(" ", "-")}`, status: 503, remaining: null };

export const WORKFLOWS = ["research-keyword", "generate-article", "publish-article", "post-to-social"] as const;

/** What the whole job says to itself, each once per keyword. */
export const MESSAGE_TYPES = [
  "research.requested",
  "research.completed",
  "content.generated",
  "content.publish",
  "social.create",
  "content.published",
  "social.posted",
] as const;

/** What the upstreams may have done in the end, per keyword: paid work once, whatever failed and was retried. */
export const ONCE_EACH = [
  { upstream: "search", outcome: "charged", words: "searches paid for" },
  { upstream: "text", outcome: "charged", words: "articles paid for" },
  { upstream: "pages", outcome: "created", words: "pages put up" },
  { upstream: "social", outcome: "created", words: "posts made" },
] as const;
