import { env } from "cloudflare:workers";
import { atomically, traces } from "millrace";
import { describe, expect, it } from "vitest";
import { putPage } from "../../../src/steps/put-page.ts";
import { markPublished } from "../../../src/systems/content/article-pages.ts";
import { markRejected, nextChange } from "../../../src/systems/content/articles.ts";
import { callerWith, send } from "../../api/client.ts";
import { siteOf } from "../../wordpress/site.ts";
import { draft, pathOf, publish } from "./article.ts";

const MAIN_SITE = { name: "main", kind: "deployment" } as const;
const TEXT = "# Green tea\n\nIt is a **plant** & a [drink](https://shop.example.com).\n\n## How\n\nWith water.";

describe("An article's page", () => {
  it("an article's page shows its URL, subject and time of publication, and links to its brand", async () => {
    const caller = await callerWith();
    const article = await publish(caller, await draft(caller, { text: TEXT }));
    const { status, headers, body } = await send(pathOf(article.url));
    expect(status).toBe(200);
    expect(headers.get("content-security-policy")).toMatch(/default-src 'none'.*sandbox/);

    const day = article.published_at.slice(0, 10);
    const index = `http://localhost:8787/pages/${caller.tenantId}/acme/`;
    for (const line of [
      "<title>Green tea · acme</title>",
      `<meta name="description" content="It is a plant &amp; a drink.">`,
      `<link rel="canonical" href="${article.url}">`,
      `<link rel="alternate" type="application/rss+xml" title="acme" href="${index}feed.xml">`,
      `<meta property="og:type" content="article">`,
      `<meta property="og:title" content="Green tea">`,
      `<meta property="og:description" content="It is a plant &amp; a drink.">`,
      `<meta property="og:url" content="${article.url}">`,
      `<meta property="og:site_name" content="acme">`,
      `<meta property="article:published_time" content="${day}">`,
      `<time datetime="${day}">`,
      `<a href="${index}">`,
      `<a href="https://shop.example.com">drink</a>`,
      "<h1>Green tea</h1>",
      "<h2>How</h2>",
    ]) {
      expect(body).toContain(line);
    }
  });

  it("an article's page is published by a step that fails on errors of the store's settings, so that an undo stops there", async () => {
    const broken = { ...env, PAGES_URL: "https://store.example.com", PAGES_TOKEN: "" };
    const { run } = putPage(broken, "deployment");
    const caller = await callerWith();
    const call = {
      input: { ...(await draft(caller)), site: MAIN_SITE },
      key: "k",
      signal: AbortSignal.timeout(1000),
      progress: () => undefined,
      trace: { traceparent: traces.begin() },
      fetch,
      env: broken,
    };
    await expect(run(call)).rejects.toMatchObject({ code: "config_invalid", message: expect.stringContaining("PAGES_TOKEN") });
  });

  it("an article's page on WordPress is removed by the next attempt when the article was rejected during its publication", async () => {
    const site = siteOf("rejected-meanwhile");
    const article = await draft(await callerWith());
    const step = putPage({ ...env, ...site.vars }, "deployment");
    if (step.effect !== "lookup") throw new Error("WordPress is to be looked at first.");
    const call = {
      input: { ...article, site: MAIN_SITE },
      key: "k",
      signal: AbortSignal.timeout(10_000),
      progress: () => undefined,
      trace: { traceparent: traces.begin() },
      fetch,
      env: { ...env, ...site.vars },
    };
    const live = await step.run(call);
    if ("why" in live) throw new Error(live.why);
    await atomically(env.DB, [markRejected(nextChange(article))]);
    await expect(atomically(env.DB, markPublished({ ...live, instanceId: "i" }))).rejects.toThrow(
      "NOT NULL constraint failed: articles.status",
    );
    expect(await step.lookup(call)).toBeUndefined();
    expect(await site.posts()).toMatchObject([{ status: "trash" }]);
    await expect(step.run(call)).rejects.toMatchObject({ code: "not_retryable" });
    expect(await site.posts()).toMatchObject([{ status: "trash" }]);
  });

  it("an article's page on WordPress is removed, and not published, when the article was rejected while its page was scheduled", async () => {
    const site = siteOf("rejected-scheduled");
    await site.behave({ keeps: "future" });
    const article = await draft(await callerWith());
    const step = putPage({ ...env, ...site.vars }, "deployment");
    const call = {
      input: { ...article, site: MAIN_SITE },
      key: "k",
      signal: AbortSignal.timeout(10_000),
      progress: () => undefined,
      trace: { traceparent: traces.begin() },
      fetch,
      env: { ...env, ...site.vars },
    };
    await expect(step.run(call)).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining('"future"') });
    expect(await site.posts()).toMatchObject([{ status: "future" }]);
    await atomically(env.DB, [markRejected(nextChange(article))]);
    await expect(step.run(call)).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining("rejected") });
    expect(await site.posts()).toMatchObject([{ status: "trash" }]);
  });

  it("an article's page has a readable URL, for any keyword", async () => {
    const caller = await callerWith();
    const long = await draft(caller, { keyword: "&".repeat(120) });
    expect(long.slug.length).toBeLessThan(90);
    const [one, other] = [await draft(caller, { keyword: "茶" }), await draft(caller, { keyword: "茶" })];
    expect(one.slug).not.toBe(other.slug);
    for (const article of [long, one, other]) {
      const { url } = await publish(caller, article);
      expect((await send(pathOf(url))).status, url).toBe(200);
    }
  });
});
