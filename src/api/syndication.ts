import { HttpRefusal, pages } from "millrace/http";
import * as z from "zod";
import { PAGE_HEADERS } from "../embedded/pages.ts";
import { MAIN } from "../messages/targets.ts";
import { siteAddresses } from "../systems/content/addresses.ts";
import { renderIndex } from "../systems/content/brand-index.ts";
import { FEED_ARTICLES, renderFeed } from "../systems/content/feed.ts";
import { liveArticles } from "../systems/content/live.ts";
import { answerTagged } from "./conditional.ts";
import type { ApiEnv } from "./env.ts";
import { operation } from "./operation.ts";

const INDEX_ARTICLES = 20;

const described = "The index and the feed are public, like the pages. A brand without any published article is not found.";
const ofSite = "Serves the index or feed of a further site of the brand, by the site's name.";

const index = {
  security: [],
  query: { before: pages.query.cursor },
  answer: {
    200: { description: "The index", content: { "text/html": { schema: z.string() } } },
    304: { description: "The browser has this version" },
  },
  problems: ["page_not_found" as const, "invalid_payload" as const],
};
const feed = {
  security: [],
  answer: {
    200: { description: "The feed", content: { "application/rss+xml": { schema: z.string() } } },
    304: { description: "The reader has this version" },
  },
  problems: ["page_not_found" as const],
};

/** The public index and feed of a brand and of its sites, generated from the rows of published articles. */
export const syndication = [
  operation("get", "/pages/{tenant}/{brand}/", "showBrandIndex", undefined, {
    summary: "Get the index page of a brand",
    description: described,
    ...index,
    run: ({ env, param, query, context: { req } }) => indexOf(env, req.raw, { ...param, site: MAIN }, query.before),
  }),
  operation("get", "/pages/{tenant}/{brand}/{site}/", "showSiteIndex", undefined, {
    summary: "Get the index page of a site of a brand",
    description: ofSite,
    ...index,
    run: ({ env, param, query, context: { req } }) => indexOf(env, req.raw, param, query.before),
  }),
  operation("get", "/pages/{tenant}/{brand}/feed.xml", "getBrandFeed", undefined, {
    summary: `Get the RSS 2.0 feed of a brand's newest ${FEED_ARTICLES} articles`,
    description: described,
    ...feed,
    run: ({ env, param, context: { req } }) => feedOf(env, req.raw, { ...param, site: MAIN }),
  }),
  operation("get", "/pages/{tenant}/{brand}/{site}/feed.xml", "getSiteFeed", undefined, {
    summary: `Get the RSS 2.0 feed of a site's newest ${FEED_ARTICLES} articles`,
    description: ofSite,
    ...feed,
    run: ({ env, param, context: { req } }) => feedOf(env, req.raw, param),
  }),
];

type Env = ApiEnv["Bindings"];

async function indexOf(env: Env, request: Request, { tenant: tenantId, brand, site }: Site, before: string | undefined) {
  const key = { tenantId, brand, site };
  const { items, next } = (await liveArticles(env.DB, key, { cursor: before, limit: INDEX_ARTICLES })) ?? unknownBrand();
  const { index: first, feed } = siteAddresses(env, key);
  const at = (cursor: string) => `${first}?before=${cursor}`;
  const self = before ? at(before) : first;
  const html = renderIndex({ brand, articles: items, self, first, older: next && at(next), feed });
  return answerTagged(request, html, { ...PAGE_HEADERS, "content-type": "text/html; charset=utf-8" });
}

async function feedOf(env: Env, request: Request, { tenant: tenantId, brand, site }: Site) {
  const key = { tenantId, brand, site };
  const { items } = (await liveArticles(env.DB, key, { limit: FEED_ARTICLES })) ?? unknownBrand();
  const { index, feed: self } = siteAddresses(env, key);
  const xml = renderFeed({ brand, articles: items, index, self });
  return answerTagged(request, xml, { ...PAGE_HEADERS, "content-type": "application/rss+xml; charset=utf-8" });
}

interface Site {
  tenant: string;
  brand: string;
  site: string;
}

function unknownBrand(): never {
  throw new HttpRefusal("page_not_found", "No brand of this name has published anything here.");
}
