import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, fresh, send } from "../../api/client.ts";
import { draft, pathOf, publish, publishedDaily } from "./article.ts";
import { child, type Element, parseXml } from "./xml.ts";

async function feedOf(tenantId: string, brand: string) {
  const path = `/pages/${tenantId}/${brand}/feed.xml`;
  const { status, headers, body } = await send(path);
  expect(status).toBe(200);
  const rss = parseXml(body);
  const channel = child(rss, "channel");
  const items = channel.children.filter(({ name }) => name === "item");
  return { path, headers, rss, channel, items };
}

const textOf = (element: Element, name: string) => child(element, name).text;

describe("A brand's feed", () => {
  it("a brand's feed is RSS 2.0: published articles, with URLs, ids and times as feed readers expect them", async () => {
    const caller = await callerWith();
    const article = await publish(caller, await draft(caller, { text: "# Green tea\n\nIt is a *plant*.\n\nAnd a drink." }));
    const { path, headers, rss, channel, items } = await feedOf(caller.tenantId, "acme");

    expect(headers.get("content-type")).toBe("application/rss+xml; charset=utf-8");
    expect(headers.get("content-security-policy")).toContain("sandbox");
    expect(rss).toMatchObject({ name: "rss", attributes: { version: "2.0" } });
    expect(child(channel, "atom:link").attributes).toEqual({
      href: `http://localhost:8787${path}`,
      rel: "self",
      type: "application/rss+xml",
    });
    expect(textOf(channel, "title")).toBe("acme");
    expect(textOf(channel, "link")).toBe(`http://localhost:8787/pages/${caller.tenantId}/acme/`);
    expect(textOf(channel, "description")).not.toBe("");

    const [item] = items as [Element];
    expect(items).toHaveLength(1);
    expect(textOf(item, "title")).toBe("Green tea");
    expect(textOf(item, "link")).toBe(article.url);
    expect(textOf(item, "description")).toBe("It is a plant.");
    expect(child(item, "guid")).toMatchObject({ text: article.id, attributes: { isPermaLink: "false" } });
    expect(textOf(item, "pubDate")).toMatch(
      /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d\d:\d\d:\d\d GMT$/,
    );
    expect(Math.abs(Date.parse(textOf(item, "pubDate")) - Date.parse(article.published_at))).toBeLessThan(1000);
  });

  it("a brand's feed returns 304 to a reader with the current version, until a change", async () => {
    const caller = await callerWith();
    await publish(caller, await draft(caller));
    const path = `/pages/${caller.tenantId}/acme/feed.xml`;
    const etag = (await send(path)).headers.get("etag") ?? "";
    for (const held of [etag, `W/${etag}`, `"other", ${etag}`]) {
      const again = await send(path, { headers: { "if-none-match": held } });
      expect([again.status, again.body, again.headers.get("etag")], held).toEqual([304, "", etag]);
    }
    await publish(caller, await draft(caller));
    const changed = await send(path, { headers: { "if-none-match": etag } });
    expect(changed.status).toBe(200);
    expect(changed.headers.get("etag")).not.toBe(etag);
  });

  it("a brand's feed has the newest 50 articles in order; the index has all of them, page by page", async () => {
    const tenantId = fresh("tenant");
    await publishedDaily(tenantId, "acme", 53);
    const { items } = await feedOf(tenantId, "acme");
    expect(items.map((item) => textOf(item, "title"))).toEqual(Array.from({ length: 50 }, (_, index) => `Day ${53 - index}`));

    const titles: string[] = [];
    let path: string | undefined = `/pages/${tenantId}/acme/`;
    for (let pages = 1; path; pages++) {
      const { status, body } = await send(path);
      expect(status).toBe(200);
      titles.push(...[...body.matchAll(/<h2><a [^>]*>(.*?)<\/a>/g)].map(([, title]) => title));
      const canonical = /<link rel="canonical" href="([^"]+)"/.exec(body)?.[1] ?? "";
      expect(pathOf(canonical)).toBe(path);
      const older: string | undefined = /<a rel="next" href="([^"]+)"/.exec(body)?.[1];
      path = older && pathOf(older);
      expect(pages).toBeLessThanOrEqual(3);
    }
    expect(titles).toEqual(Array.from({ length: 53 }, (_, index) => `Day ${53 - index}`));
  });

  it("a brand's feed has links to the index and to each page, and both link to the feed", async () => {
    const caller = await callerWith();
    const { url } = await publish(caller, await draft(caller));
    const { channel } = await feedOf(caller.tenantId, "acme");
    const feed = child(channel, "atom:link").attributes.href ?? "";
    for (const path of [pathOf(textOf(channel, "link")), pathOf(url)]) {
      expect((await send(path)).body).toContain(`<link rel="alternate" type="application/rss+xml" title="acme" href="${feed}">`);
    }
  });
});

describe("A brand's index and feed", () => {
  it("a brand's index and feed contain nothing of another tenant with a brand of the same name, and their pages are separate", async () => {
    const [ann, bob] = [await callerWith(), await callerWith()];
    const anns = await publish(ann, await draft(ann, { text: "# Of Ann\n\nHers." }));
    const bobs = await publish(bob, await draft(bob, { text: "# Of Bob\n\nHis." }));
    for (const [{ tenantId }, own, other] of [
      [ann, "Of Ann", "Of Bob"],
      [bob, "Of Bob", "Of Ann"],
    ] as const) {
      const index = await send(`/pages/${tenantId}/acme/`);
      expect(index.body).toContain(own);
      expect(index.body).not.toContain(other);
      expect((await feedOf(tenantId, "acme")).items.map((item) => textOf(item, "title"))).toEqual([own]);
    }
    expect(pathOf(anns.url)).toMatch(new RegExp(`^/pages/${ann.tenantId}/acme/`));
    expect((await send(pathOf(anns.url))).body).toContain("Hers.");
    expect((await send(pathOf(bobs.url))).body).toContain("His.");
  });

  it("a brand's index and feed contain no unpublished article", async () => {
    const caller = await callerWith();
    await publish(caller, await draft(caller, { text: "# Up\n\nText." }));
    await draft(caller, { text: "# Still a draft\n\nText." });
    const index = await send(`/pages/${caller.tenantId}/acme/`);
    expect(index.body).toContain("Up");
    expect(index.body).not.toContain("Still a draft");
    expect((await feedOf(caller.tenantId, "acme")).items).toHaveLength(1);
  });

  it("a brand's index and feed do not exist if the brand has published nothing, because the list of tenants is private", async () => {
    const caller = await callerWith();
    await draft(caller, { brand: "shy" });
    for (const tenant of [caller.tenantId, "nobody"]) {
      for (const path of [`/pages/${tenant}/shy/`, `/pages/${tenant}/shy/feed.xml`, `/pages/${tenant}/shy`]) {
        expect(expectProblem(await send(path), 404, "page_not_found").detail).not.toContain(tenant);
      }
    }
  });

  it("a brand's index and feed are found without the trailing slash", async () => {
    const caller = await callerWith();
    await publish(caller, await draft(caller));
    const { status, headers } = await send(`/pages/${caller.tenantId}/acme`);
    expect([status, headers.get("location")]).toEqual([308, `/pages/${caller.tenantId}/acme/`]);
  });
});
