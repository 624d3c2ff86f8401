import { Hono } from "hono";
import { EMBEDDED_TOKEN } from "../providers/credentials.ts";
import { type EmbeddedEnv, ledgerOf } from "./env.ts";

/** Brave's own maximum length of a query. */
const MAX_QUERY_LENGTH = 400;
/** If a query contains these words, the first search with that query fails, so that a drill can test a retry. */
const FAILS_ONCE = "fails once";

/** A search engine with Brave's API. The same query always finds the same five pages. Every call is charged. */
export const search = new Hono<{ Bindings: EmbeddedEnv }>().get("/res/v1/web/search", async (context) => {
  if (context.req.header("x-subscription-token") !== (context.env.SEARCH_TOKEN || EMBEDDED_TOKEN)) {
    return context.json(searchError(422, "The provided subscription token is invalid.", "SUBSCRIPTION_TOKEN_INVALID"), 422);
  }
  const query = context.req.query("q")?.trim() ?? "";
  if (query === "" || query.length > MAX_QUERY_LENGTH) {
    return context.json(searchError(422, `q must have 1 to ${MAX_QUERY_LENGTH} characters.`, "VALIDATION"), 422);
  }
  const call = { upstream: "search", key: null, subject: query } as const;
  if (query.includes(FAILS_ONCE) && !(await ledgerOf(context.env).isKnown(call))) {
    await ledgerOf(context.env).record(call, "refused");
    return context.json(searchError(422, `What says "${FAILS_ONCE}" is refused the first time, and found the next.`, "VALIDATION"), 422);
  }
  await ledgerOf(context.env).record(call, "charged");
  const count = Number(context.req.query("count") ?? 20);
  return context.json({
    type: "search",
    query: { original: query },
    web: { type: "search", results: resultsFor(query).slice(0, count) },
  });
});

export function searchError(status: number, detail: string, code = "UNAVAILABLE"): object {
  return { type: "ErrorResponse", error: { id: crypto.randomUUID(), status, code, detail } };
}

/** Five typical kinds of sources, on domains that are reserved for examples. */
function resultsFor(query: string): { title: string; url: string; description: string }[] {
  const topic = query.toLowerCase();
  const title = query.charAt(0).toUpperCase() + query.slice(1);
  const slug = topic.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "") || "results";
  return [
    {
      title: `${title}: a practical guide`,
      url: `https://guides.example.com/${encodeURIComponent(slug)}`,
      description: `Where to begin with ${topic}, what to have at hand, and the three decisions that matter most early on.`,
    },
    {
      title: `What the numbers say about ${topic}`,
      url: `https://data.example.org/reports/${encodeURIComponent(slug)}`,
      description: `A yearly survey of people who work with ${topic}: what they spend, what they gain, and what they would change.`,
    },
    {
      title: `Seven common mistakes with ${topic}`,
      url: `https://journal.example.net/mistakes/${encodeURIComponent(slug)}`,
      description: `Most trouble with ${topic} comes from starting too large, measuring too late, and never writing down what was tried.`,
    },
    {
      title: `${title} compared: which approach fits whom`,
      url: `https://reviews.example.com/compare/${encodeURIComponent(slug)}`,
      description: `A side-by-side look at the usual approaches to ${topic}, with their costs, their limits and who is well served by each.`,
    },
    {
      title: `A day with someone who does ${topic} for a living`,
      url: `https://stories.example.org/people/${encodeURIComponent(slug)}`,
      description: `An interview about routine, patience and the small habits that make ${topic} pay off over the years.`,
    },
  ];
}
