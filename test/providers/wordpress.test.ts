import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { pages } from "../../src/providers/index.ts";
import { wordpressPages } from "../../src/providers/wordpress.ts";
import { pageOf, siteOf } from "../wordpress/site.ts";
import { scripted } from "./embedded.ts";

const options = { key: "k1" };

describe("WordPress", () => {
  it("WordPress has one post for any number of publications, with the newest text", async () => {
    const site = siteOf("again");
    const first = await site.pages.put(pageOf("tea-1a2b3c"), options);
    const second = await site.pages.put(pageOf("tea-1a2b3c", "<p>New.</p>"), options);
    expect(second.url).toBe(first.url);
    expect(await site.posts()).toMatchObject([
      { slug: "tea-1a2b3c", status: "publish", title: "Green tea &amp; more", content: "<p>New.</p>" },
    ]);
  });

  it("WordPress gets a title as text and a content without shortcodes, for any author", async () => {
    const site = siteOf("injected");
    const title = "<script>alert(1)</script> & tea";
    await site.pages.put({ ...pageOf("tea-1a2b3c", "<p>[gallery ids=1] <a href='/x[y]'>x</a></p>"), title }, options);
    expect(await site.posts()).toMatchObject([
      {
        title: "&lt;script&gt;alert(1)&lt;/script&gt; &amp; tea",
        content: "<p>&#91;gallery ids=1] <a href='/x&#91;y]'>x</a></p>",
      },
    ]);
  });

  it("without the lookup, a repeated publication would create two WordPress posts", async () => {
    const site = siteOf("without-looking");
    const headers = { authorization: `Basic ${btoa("editor:abcd EFGH 1234")}` };
    const body = JSON.stringify({ slug: "tea-1a2b3c", status: "publish" });
    for (let time = 1; time <= 2; time++) await fetch(`${site.url}/?rest_route=/wp/v2/posts`, { method: "POST", headers, body });
    expect(await site.posts()).toMatchObject([{ slug: "tea-1a2b3c" }, { slug: "tea-1a2b3c-2" }]);
  });

  it("a WordPress post whose response was lost is found by the lookup", async () => {
    const site = siteOf("lost-answer");
    await site.behave({ drop: 1 });
    await expect(site.pages.put(pageOf("tea-1a2b3c"), options)).rejects.toMatchObject({ code: "unavailable" });
    expect(site.pages.repeatable).toBe(false);
    expect(await site.pages.find(pageOf("tea-1a2b3c"), options)).toMatchObject({ url: expect.stringContaining("/tea-1a2b3c/") });
    await site.pages.put(pageOf("tea-1a2b3c"), options);
    expect(await site.posts()).toHaveLength(1);
  });

  it("three concurrent attempts, which all read before any wrote, leave one WordPress post", async () => {
    const site = siteOf("beside");
    await site.behave({ awaitLooks: 3 });
    const put = await Promise.all([1, 2, 3].map(() => site.pages.put(pageOf("tea-1a2b3c"), options)));
    expect(await site.posts()).toMatchObject([{ slug: "tea-1a2b3c", status: "publish" }]);
    expect(new Set(put.map(({ url }) => url)).size).toBe(1);
  });

  it("a publication leaves one WordPress post under another name if an image has the engine's slug", async () => {
    const site = siteOf("picture");
    await site.behave({ pictures: ["tea-1a2b3c"] });
    const first = await site.pages.put(pageOf("tea-1a2b3c"), options);
    await site.pages.put(pageOf("tea-1a2b3c"), options);
    expect(await site.posts()).toMatchObject([{ slug: "tea-1a2b3c-2" }]);
    expect(await site.pages.find(pageOf("tea-1a2b3c"), options)).toMatchObject({ url: first.url });
  });

  it("a removal moves a WordPress post to the trash, and a publication restores the same post, at the same URL", async () => {
    const site = siteOf("trash");
    const first = await site.pages.put(pageOf("tea-1a2b3c"), options);
    await site.pages.remove(pageOf("tea-1a2b3c"), options);
    await site.pages.remove(pageOf("tea-1a2b3c"), options);
    expect(await site.posts()).toMatchObject([{ slug: "tea-1a2b3c__trashed", status: "trash" }]);
    expect(await site.pages.find(pageOf("tea-1a2b3c"), options)).toBeUndefined();

    const again = await site.pages.put(pageOf("tea-1a2b3c"), options);
    expect(again.url).toBe(first.url);
    expect(await site.posts()).toMatchObject([{ id: 4, slug: "tea-1a2b3c", status: "publish" }]);
  });

  it("a removal deletes the post if WordPress has no trash", async () => {
    const site = siteOf("no-trash");
    await site.behave({ noTrash: true });
    await site.pages.put(pageOf("tea-1a2b3c"), options);
    await site.pages.remove(pageOf("tea-1a2b3c"), options);
    expect(await site.posts()).toEqual([]);
    await expect(site.pages.remove(pageOf("tea-1a2b3c"), options)).resolves.toBeUndefined();
  });

  it("the WordPress connector does not change other users' posts, with any similar names", async () => {
    const site = siteOf("others");
    for (const slug of ["tea", "tea-1a2b3c-3", "tea-1a2b3cd"]) await site.pages.put(pageOf(slug, "<p>Not ours.</p>"), options);
    await site.pages.put(pageOf("tea-1a2b3c"), options);
    await site.pages.remove(pageOf("tea-1a2b3c"), options);
    expect((await site.posts()).filter(({ status }) => status === "publish").map(({ content }) => content)).toEqual(
      Array(3).fill("<p>Not ours.</p>"),
    );
  });

  it("a password that WordPress refuses is reported with the variables to check, and WordPress is not called again", async () => {
    for (const wrong of [{ password: "wrong" }, { user: "nobody" }]) {
      const put = siteOf("stranger", wrong).pages.put(pageOf("tea-1a2b3c"), options);
      await expect(put).rejects.toMatchObject({
        code: "not_retryable",
        message: expect.stringContaining("Check PAGES_USER and PAGES_TOKEN"),
      });
    }
  });

  it.each(["future", "draft", "pending", "private"])(
    "a publication that leaves a WordPress post %j is not done: the error reports that",
    async (keeps) => {
      const site = siteOf(`keeps-${keeps}`);
      await site.behave({ keeps });
      for (const time of ["made", "changed"]) {
        await expect(site.pages.put(pageOf("tea-1a2b3c"), options), time).rejects.toMatchObject({
          code: "not_retryable",
          message: expect.stringMatching(new RegExp(`"${keeps}"${keeps === "future" ? " for \\d{4}-" : ","}.*not public.*then retry`)),
        });
      }
      expect(await site.pages.find(pageOf("tea-1a2b3c"), options)).toBeUndefined();
      await site.behave({ keeps: "" });
      await site.pages.put(pageOf("tea-1a2b3c"), options);
      expect(await site.posts()).toMatchObject([{ slug: "tea-1a2b3c", status: "publish" }]);
    },
  );

  it("a removal that returns a WordPress post which is still scheduled is not done", async () => {
    const post = { id: 1, slug: "tea-1a2b3c", status: "future", link: "http://w.example/?p=1", modified_gmt: null };
    const upstream = scripted(Response.json([post]), Response.json(post));
    await expect(wordpressPages(upstream, "store", "editor").remove(pageOf("tea-1a2b3c"), options)).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining('"future"'),
    });
  });

  it.each(["Tea", "tea_1", "tea--1", "", "x".repeat(181)])("WordPress is not sent the slug %j, which it would change", async (slug) => {
    await expect(siteOf("slugs").pages.put(pageOf(slug), options)).rejects.toMatchObject({ code: "not_retryable" });
    expect(await siteOf("slugs").posts()).toEqual([]);
  });

  it.each([
    ["the address of the site", { PAGES_PROVIDER: "wordpress" }, "PAGES_URL"],
    ["the user name", { PAGES_PROVIDER: "wordpress", PAGES_URL: "https://blog.example.com", PAGES_TOKEN: "t" }, "PAGES_USER"],
    ["the password", { PAGES_PROVIDER: "wordpress", PAGES_URL: "https://blog.example.com", PAGES_USER: "u" }, "PAGES_TOKEN"],
    ["a valid PAGES_PROVIDER", { PAGES_PROVIDER: "drupal" }, '"http" or "wordpress"'],
  ])("a WordPress site requires %s", (_, settings, words) => {
    const attempt = () => pages({ ...env, ...settings });
    expect(attempt).toThrow(expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(words) }));
  });
});
