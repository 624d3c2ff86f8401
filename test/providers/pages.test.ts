import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import { servePage } from "../../src/embedded/pages.ts";
import { type Page, pages } from "../../src/providers/index.ts";
import { fresh } from "../api/client.ts";
import { inject, ledger } from "./embedded.ts";

/** A page in the form that a store requires. */
function page(path: string, document: string): Page {
  return { path, slug: path.replaceAll("/", "-"), title: "A page", content: document, document };
}

afterEach(() => inject());

/** A brand of this file only: pages of other tests are not counted. */
const BRAND = fresh("acme");

describe("publishing", () => {
  it("the page store publishes a readable page", async () => {
    const published = await pages(env).put(page(`${BRAND}/green-tea`, "<h1>Green tea</h1>"), { key: "k1" });
    expect(published.url).toMatch(new RegExp(`/pages/${BRAND}/green-tea$`));

    const served = await servePage(env, `${BRAND}/green-tea`);
    expect(await served?.text()).toBe("<h1>Green tea</h1>");
    expect(Object.fromEntries(served?.headers ?? [])).toMatchObject({
      etag: published.etag,
      "content-type": "text/html; charset=utf-8",
      "x-content-type-options": "nosniff",
      "content-security-policy": expect.stringMatching(/default-src 'none'.*sandbox/),
    });
  });

  it("the page store finds a published page, and reports with certainty that a page is missing", async () => {
    const at = { path: `t/${BRAND}/genmaicha`, slug: "genmaicha" };
    expect(await pages(env).find(at, { key: "k" })).toBeUndefined();
    const published = await pages(env).put(page(at.path, "x"), { key: "k1" });
    expect(await pages(env).find(at, { key: "k" })).toEqual(published);
    await inject({ upstream: "pages", match: "genmaicha", status: 500, remaining: 1 });
    await expect(pages(env).find(at, { key: "k" })).rejects.toMatchObject({ code: "unavailable" });
  });

  it("the page store removes a page, also repeatedly, and no other page", async () => {
    const [gone, stays] = [page(`t/${BRAND}/hojicha`, "x"), page(`t/${BRAND}/hojicha-2`, "y")];
    const key = fresh("k");
    for (const one of [gone, stays]) await pages(env).put(one, { key: "k1" });
    await pages(env).remove(gone, { key });
    await pages(env).remove(gone, { key });
    expect(await servePage(env, gone.path)).toBeNull();
    expect(await servePage(env, stays.path)).not.toBeNull();
    const { calls } = await ledger({ match: key });
    expect(calls.map(({ subject, outcome }) => [subject, outcome])).toEqual([
      [gone.path, "removed"],
      [gone.path, "unchanged"],
    ]);
  });

  it("the page store refuses a lookup or a removal with a wrong token", async () => {
    const stranger = pages({ ...env, PAGES_TOKEN: "wrong" });
    const published = page(`t/${BRAND}/kukicha`, "x");
    await pages(env).put(published, { key: "k1" });
    for (const ask of [stranger.find, stranger.remove]) {
      await expect(ask(published, { key: "k" })).rejects.toMatchObject({ code: "not_retryable" });
    }
    expect(await servePage(env, published.path)).not.toBeNull();
  });

  it("a repeated publication has no further effect, except that it replaces the changed parts", async () => {
    const path = `${BRAND}/oolong`;
    const first = await pages(env).put(page(path, "one"), { key: "k1" });
    const again = await pages(env).put(page(path, "one"), { key: "k1" });
    const changed = await pages(env).put(page(path, "two"), { key: "k2" });
    expect(again).toEqual(first);
    expect(changed.etag).not.toBe(first.etag);
    expect(await (await servePage(env, path))?.text()).toBe("two");
    expect((await ledger({ match: path })).totals.pages).toMatchObject({ created: 1, replaced: 2 });
  });

  it("a repeated publication is reported as a repeat, when the process was killed between the store's write and its record", async () => {
    const lost = page(`${BRAND}/shincha`, "x");
    await env.PAGES.put(lost.path, lost.document);
    await pages(env).put(lost, { key: "k1" });
    await env.PAGES.delete(lost.path);
    await pages(env).remove(lost, { key: "k2" });
    expect((await ledger({ match: lost.path })).calls.map(({ outcome }) => outcome)).toEqual(["created", "removed"]);
  });

  it("the page store keeps pages with unusual names apart", async () => {
    const published = await pages(env).put(page(`${BRAND}/50% más & 茶`, "x"), { key: "k1" });
    expect(published.url).toMatch(new RegExp(`/pages/${BRAND}/50%25%20m%C3%A1s%20%26%20%E8%8C%B6$`));
    expect(await servePage(env, `${BRAND}/50% más & 茶`)).not.toBeNull();
  });

  it("a page returns 304 to a browser that has this version, also through a proxy that weakened the ETag", async () => {
    const { etag } = await pages(env).put(page(`${BRAND}/sencha`, "x"), { key: "k1" });
    for (const held of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const answer = await servePage(env, `${BRAND}/sencha`, new Headers({ "if-none-match": held }));
      expect(answer?.status, held).toBe(304);
      expect(answer?.headers.get("etag")).toBe(etag);
    }
    for (const held of ['"other"', "garbage", '"unclosed', ""]) {
      const answer = await servePage(env, `${BRAND}/sencha`, new Headers({ "if-none-match": held }));
      expect(answer?.status, held).toBe(200);
      expect(await answer?.text()).toBe("x");
    }
  });

  it("the page store serves nothing at a path without a page", async () => {
    expect(await servePage(env, `${BRAND}/nothing`)).toBeNull();
    expect(await servePage(env, "x".repeat(2_000))).toBeNull();
  });

  it.each(["../secrets", "acme//tea", "acme/./tea", "", "/acme"])(
    "the page store refuses the path %j before the request is sent",
    async (path) => {
      await expect(pages(env).put(page(path, "x"), { key: "k" })).rejects.toMatchObject({ code: "not_retryable" });
    },
  );

  it("a publication has no effect when the store is unavailable", async () => {
    await inject({ upstream: "pages", match: `${BRAND}/matcha`, status: 503, remaining: 1 });
    const put = () => pages(env).put(page(`${BRAND}/matcha`, "x"), { key: "k1" });
    await expect(put()).rejects.toMatchObject({ code: "unavailable" });
    expect(await servePage(env, `${BRAND}/matcha`)).toBeNull();
    await put();
    expect((await ledger({ match: `${BRAND}/matcha` })).totals.pages).toMatchObject({ refused: 1, created: 1 });
  });

  it("a publication fails while a fault without a count is set", async () => {
    await inject({ upstream: "pages", match: "", status: 500, remaining: null });
    const put = () => pages(env).put(page(`${BRAND}/chai`, "x"), { key: "k1" });
    await expect(put()).rejects.toMatchObject({ code: "unavailable" });
    await expect(put()).rejects.toMatchObject({ code: "unavailable" });
    await env.UPSTREAMS.fetch("https://control.embedded/faults", { method: "DELETE" });
    await expect(put()).resolves.toMatchObject({ etag: expect.any(String) });
  });

  it("the page store refuses a wrong token, and the error names the variable to check", async () => {
    const put = pages({ ...env, PAGES_TOKEN: "wrong" }).put(page(`${BRAND}/tea`, "x"), { key: "k" });
    await expect(put).rejects.toMatchObject({ code: "not_retryable", message: expect.stringContaining("Check PAGES_TOKEN") });
  });
});
