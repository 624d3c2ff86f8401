/** The demo's job: its request, its injected failure, and its expected result. */
export const BRAND = "acme";
/** The name of the first cycle, which the demo's commands use by default. */
export const FIRST = "first";
export const KEYWORDS = ["cold brew", "coffee grinders", "milk foam"] as const;
export const UNLUCKY = KEYWORDS[0];

/** The additional keywords of the second cycle: the writer refuses `REFUSED`, and `WAITING` exceeds the maximum number of drafts. */
export const REFUSED = "moka pot";
export const WAITING = "oat milk";

/** A rule with which the page store refuses the page of one keyword until the rule is removed. */
export const REFUSED_PAGE = { upstream: "pages", match: `${BRAND}/${UNLUCKY.replaceAll(" ", "-")}`, status: 403, remaining: null };
/** A rule with which the writer always refuses the article of one keyword, after its research succeeded. */
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
/** Number of instances for each keyword of a job: the research, the article, the page and the post. */
export const PER_KEYWORD = 4;

/** The expected messages of the whole job, by type: one command, and one message of each other type per keyword. */
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

/**
 * The expected number of calls to each upstream per keyword. Each paid call happens once, despite failures and retries. A synthesis and an
 * article are both calls to the text upstream.
 */
export const ONCE_EACH = [
  { upstream: "search", outcome: "charged", each: 1, words: "searches paid for" },
  { upstream: "text", outcome: "charged", each: 2, words: "texts paid for" },
  { upstream: "pages", outcome: "created", each: 1, words: "pages put up" },
  { upstream: "social", outcome: "created", each: 1, words: "posts made" },
] as const;
