/** The demo's job: its request, its injected failure, and its expected result. */
export const BRAND = "acme";
/** The default cycle of commands. */
export const FIRST = "first";
export const KEYWORDS = ["cold brew", "coffee grinders", "milk foam"] as const;
export const UNLUCKY = KEYWORDS[0];

/** The second cycle's further keywords: the writer refuses the first, and there is no room for the second. */
export const REFUSED = "moka pot";
export const WAITING = "oat milk";

/** Its page is refused until the rule is removed. */
export const REFUSED_PAGE = { upstream: "pages", match: `${BRAND}/${UNLUCKY.replaceAll(" ", "-")}`, status: 403, remaining: null };
/** Its article is refused permanently; the synthesis of its research is not. */
export const REFUSAL = { upstream: "text", match: `Keyword: ${REFUSED}`, status: 400, remaining: null };

export const WORKFLOWS = [
  "plan-cycle",
  "research-keyword",
  "generate-article",
  "publish-article",
  "publish-to-site",
  "post-to-social",
  "audit-brand",
] as const;
/** Instances of a whole job: the plan, and for each keyword its research, article, page and post. */
export const PER_KEYWORD = 4;

/** Messages of the whole job: the command, and each of the others once per keyword. */
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

/** The expected upstream calls per keyword: each paid call once, despite failures and retries. A synthesis and an article are texts. */
export const ONCE_EACH = [
  { upstream: "search", outcome: "charged", each: 1, words: "searches paid for" },
  { upstream: "text", outcome: "charged", each: 2, words: "texts paid for" },
  { upstream: "pages", outcome: "created", each: 1, words: "pages put up" },
  { upstream: "social", outcome: "created", each: 1, words: "posts made" },
] as const;
