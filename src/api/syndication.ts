import { createRoute, HttpRefusal, pages, Routes } from "millrace/http";
import * as z from "zod";
import { PAGE_HEADERS } from "../embedded/pages.ts";
import { MAIN } from "../messages/targets.ts";
import { siteAddresses } from "../systems/content/addresses.ts";
import { renderIndex } from "../systems/content/brand-index.ts";
import { FEED_ARTICLES, renderFeed } from "../systems/content/feed.ts";
import { liveArticles } from "../systems/content/live.ts";
import { answerTagged } from "./conditional.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

const INDEX_ARTICLES = 20;

const params = z.object({ tenant: z.string(), brand: z.string() });
const described = "The index and the feed are public, like the pages. A brand without any published article is not found.";

const index = createRoute({
  method: "get",
  path: "/pages/{tenant}/{brand}/",
  operationId: "showBrandIndex",
  summary: "Get the index page of a brand",
  description: described,
  security: [],
  request: { params, query: z.object({ before: pages.query.cursor }) },
  responses: {
    200: { description: "The index", content: { "text/html": { schema: z.string() } } },
    304: { description: "The browser has this version" },
    ...problems("page_not_found", "invalid_payload"),
  },
});

const siteParams = params.extend({ site: z.string() });
const ofSite = "Serves the index or feed of a further site of the brand, by the site's name.";

const siteIndex = createRoute({
  ...index,
  path: "/pages/{tenant}/{brand}/{site}/",
  operationId: "showSiteIndex",
  summary: "Get the index page of a site of a brand",
  description: ofSite,
  request: { ...index.request, params: siteParams },
});

const feed = createRoute({
  method: "get",
  path: "/pages/{tenant}/{brand}/feed.xml",
  operationId: "getBrandFeed",
  summary: `Get the RSS 2.0 feed of a brand's newest ${FEED_ARTICLES} articles`,
  description: described,
  security: [],
  request: { params },
  responses: {
    200: { description: "The feed", content: { "application/rss+xml": { schema: z.string() } } },
    304: { description: "The reader has this version" },
    ...problems("page_not_found"),
  },
});

const siteFeed = createRoute({
  ...feed,
  path: "/pages/{tenant}/{brand}/{site}/feed.xml",
  operationId: "getSiteFeed",
  summary: `Get the RSS 2.0 feed of a site's newest ${FEED_ARTICLES} articles`,
  description: ofSite,
  request: { params: siteParams },
});

/** The public index and feed of a brand and of its sites, generated from the rows of published articles. */
export function syndication() {
  return new Routes<ApiEnv>()
    .openapi(index, ({ env, req }) => indexOf(env, req, { ...req.valid("param"), site: MAIN }))
    .openapi(siteIndex, ({ env, req }) => indexOf(env, req, req.valid("param")))
    .openapi(feed, ({ env, req }) => feedOf(env, req, { ...req.valid("param"), site: MAIN }))
    .openapi(siteFeed, ({ env, req }) => feedOf(env, req, req.valid("param")));
}

type Env = ApiEnv["Bindings"];

async function indexOf(env: Env, req: Asked, { tenant: tenantId, brand, site }: z.infer<typeof siteParams>) {
  const key = { tenantId, brand, site };
  const { before } = req.valid("query");
  const { items, next } = (await liveArticles(env.DB, key, { cursor: before, limit: INDEX_ARTICLES })) ?? unknownBrand();
  const { index: first, feed } = siteAddresses(env, key);
  const at = (cursor: string) => `${first}?before=${cursor}`;
  const self = before ? at(before) : first;
  const html = renderIndex({ brand, articles: items, self, first, older: next && at(next), feed });
  return answerTagged(req.raw, html, { ...PAGE_HEADERS, "content-type": "text/html; charset=utf-8" });
}

async function feedOf(env: Env, { raw }: { raw: Request }, { tenant: tenantId, brand, site }: z.infer<typeof siteParams>) {
  const key = { tenantId, brand, site };
  const { items } = (await liveArticles(env.DB, key, { limit: FEED_ARTICLES })) ?? unknownBrand();
  const { index, feed: self } = siteAddresses(env, key);
  const xml = renderFeed({ brand, articles: items, index, self });
  return answerTagged(raw, xml, { ...PAGE_HEADERS, "content-type": "application/rss+xml; charset=utf-8" });
}

interface Asked {
  raw: Request;
  valid(where: "query"): { before?: string | undefined };
}

function unknownBrand(): never {
  throw new HttpRefusal("page_not_found", "No brand of this name has published anything here.");
}
