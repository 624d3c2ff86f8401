/** The demo's job: what is asked for, which part is made to fail, and what must be true in the end. */
export const BRAND = "acme";
/** The cycle that commands have which name none. */
export const FIRST = "first";
export const KEYWORDS = ["cold brew", "coffee grinders", "milk foam"] as const;
export const UNLUCKY = KEYWORDS[0];

/** What the second cycle asks for beside the same again: the writer refuses the one, and there is no room for the other. */
export const REFUSED = "moka pot";
export const WAITING = "oat milk";

/** Its page is refused until the rule is lifted. */
export const REFUSED_PAGE = { upstream: "pages", match: `${BRAND}/${UNLUCKY.replaceAll(" ", "-")}`, status: 403, remaining: null };
/** Its article is refused for good. */
export const REFUSAL = { upstream: "text", match: REFUSED, status: 400, remaining: null };

export const WORKFLOWS = [
  "plan-cycle",
  "research-keyword",
  "generate-article",
  "publish-article",
  "post-to-social",
  "audit-brand",
] as const;
/** Instances of a whole job: the plan, and for each keyword its research, article, page and post. */
export const PER_KEYWORD = 4;

/** What the whole job says to itself: the command, and each of the others once per keyword. */
export const MESSAGES: Readonly<Record<string, number>> = {
  "brand.cycle": 1,
  "research.requested": KEYWORDS.length,
  "research.completed": KEYWORDS.length,
  "content.generated": KEYWORDS.length,
  "content.publish": KEYWORDS.length,
  "social.create": KEYWORDS.length,
  "content.published": KEYWORDS.length,
  "social.posted": KEYWORDS.length,
};

/** What the upstreams may have done in the end, per keyword: paid work once, whatever failed and was retried. */
export const ONCE_EACH = [
  { upstream: "search", outcome: "charged", words: "searches paid for" },
  { upstream: "text", outcome: "charged", words: "articles paid for" },
  { upstream: "pages", outcome: "created", words: "pages put up" },
  { upstream: "social", outcome: "created", words: "posts made" },
] as const;
