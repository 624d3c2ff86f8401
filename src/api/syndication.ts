import { createRoute, HttpRefusal, pageQuery, Routes } from "millrace/http";
import * as z from "zod";
import { PAGE_HEADERS } from "../embedded/pages.ts";
import { brandAddresses } from "../systems/content/addresses.ts";
import { renderIndex } from "../systems/content/brand-index.ts";
import { FEED_ARTICLES, renderFeed } from "../systems/content/feed.ts";
import { liveArticles } from "../systems/content/live.ts";
import { answerTagged } from "./conditional.ts";
import type { ApiEnv } from "./env.ts";
import { problems } from "./problems.ts";

const INDEX_ARTICLES = 20;

const params = z.object({ tenant: z.string(), brand: z.string() });
const described = "Public, like the pages. A brand without any published article is not found.";

const index = createRoute({
  method: "get",
  path: "/pages/{tenant}/{brand}/",
  operationId: "showBrandIndex",
  summary: "Get the index page of a brand",
  description: described,
  security: [],
  request: { params, query: z.object({ before: pageQuery.cursor }) },
  responses: {
    200: { description: "The index", content: { "text/html": { schema: z.string() } } },
    304: { description: "The browser has this version" },
    ...problems("page_not_found", "invalid_payload"),
  },
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

/** The public index and feed of a brand, generated from the rows of its published articles. */
export function syndication() {
  return new Routes<ApiEnv>()
    .openapi(index, async ({ env, req }) => {
      const key = brandKey(req.valid("param"));
      const { before } = req.valid("query");
      const { items, next } = (await liveArticles(env.DB, key, { cursor: before, limit: INDEX_ARTICLES })) ?? unknownBrand();
      const { index: first, feed } = brandAddresses(env, key);
      const at = (cursor: string) => `${first}?before=${cursor}`;
      const self = before ? at(before) : first;
      const html = renderIndex({ brand: key.brand, articles: items, self, first, older: next && at(next), feed });
      return answerTagged(req.raw, html, { ...PAGE_HEADERS, "content-type": "text/html; charset=utf-8" });
    })
    .openapi(feed, async ({ env, req }) => {
      const key = brandKey(req.valid("param"));
      const { items } = (await liveArticles(env.DB, key, { limit: FEED_ARTICLES })) ?? unknownBrand();
      const { index, feed: self } = brandAddresses(env, key);
      const xml = renderFeed({ brand: key.brand, articles: items, index, self });
      return answerTagged(req.raw, xml, { ...PAGE_HEADERS, "content-type": "application/rss+xml; charset=utf-8" });
    });
}

function brandKey({ tenant, brand }: z.infer<typeof params>) {
  return { tenantId: tenant, brand };
}

function unknownBrand(): never {
  throw new HttpRefusal("page_not_found", "No brand of this name has published anything here.");
}
