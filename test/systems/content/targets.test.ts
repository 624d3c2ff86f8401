import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { skipPauses } from "millrace/testing";
import { afterEach, describe, expect, it } from "vitest";
import { secretVariable } from "../../../src/providers/target-secret.ts";
import { type Caller, callerWith, expectProblem, fresh, type Json, reaches, send, until } from "../../api/client.ts";
import { inject, ledger } from "../../providers/embedded.ts";
import { siteOf } from "../../wordpress/site.ts";
import { askToPublish, draft, pathOf } from "./article.ts";
import { instancesOf, standsAt, statusesIn, TARGETS, withTargets } from "./targets.ts";
import { child, parseXml } from "./xml.ts";

afterEach(() => inject());
const EVERYWHERE = {
  main: "published",
  shop: "published",
  "main on bluesky": "posted",
  "fedi on mastodon": "posted",
  "birds on x": "posted",
};
/** A draft of a brand with two sites and three accounts. Its title is unique. */
async function drafted(settings: Parameters<typeof withTargets>[2] = {}) {
  const caller = await callerWith();
  await withTargets(caller, "acme", settings);
  const title = fresh("Tea");
  const article = await draft(caller, { text: `# ${title}\n\nText.` });
  return { caller, article, title, instances: instancesOf(caller, article.id) };
}
/** The effects at each embedded platform and in the page store, from their own ledger. */
async function effects({ slug }: { slug: string }, title: string) {
  const did = async (upstream: string, match: string) => (await ledger({ upstream, match })).calls.map(({ outcome }) => outcome);
  const posted = { bluesky: await did("social", title), mastodon: await did("mastodon", title), x: await did("x", title) };
  return { pages: await did("pages", slug), ...posted };
}
async function payloads(caller: Caller, ...instances: string[]): Promise<Json[]> {
  const all = await Promise.all(instances.map((id) => caller.get(`/v1/instances/${id}/events?payload=true`)));
  return all.flatMap(({ body }) => body.items.map(({ message_type, payload_inline }: Json) => ({ type: message_type, ...payload_inline })));
}
const retry = (caller: Caller, id: string) => caller.post(`/v1/instances/${id}/retry`, { reason: "it works again" });
async function listed(caller: Caller, path: string) {
  const index = await send(`/pages/${caller.tenantId}/${path}/`);
  const feed = await send(`/pages/${caller.tenantId}/${path}/feed.xml`);
  const links = [...String(index.body).matchAll(/<h2><a href="([^"]+)"/g)].map(([, link]) => link);
  const items = feed.status === 200 ? child(parseXml(feed.body), "channel").children.filter(({ name }) => name === "item") : [];
  return { status: index.status, links, feed: items.map((item) => child(item, "link").text) };
}
describe("An article of a brand with two sites and three accounts", () => {
  it("an article of a brand with two sites and three accounts is one page on each site and one post on each account, with the URL of each", async () => {
    const { caller, article, title, instances } = await drafted();
    await askToPublish(caller, article);
    const up = await standsAt(caller, article.id, EVERYWHERE);
    const base = `http://localhost:8787/pages/${caller.tenantId}/acme`;
    expect(up.published_to).toMatchObject([
      { site: "main", kind: "deployment", url: `${base}/${article.slug}`, instance: { id: instances.main } },
      { site: "shop", kind: "store", url: `${base}/shop/${article.slug}`, instance: { id: instances.shop } },
    ]);
    expect(up.posts).toMatchObject([
      {
        account: "main",
        platform: "bluesky",
        uri: up.post_uri,
        url: expect.stringMatching(/^https:\/\/bsky\.app\/profile\/did:.+\/post\/.+$/),
      },
      { account: "fedi", platform: "mastodon", url: expect.stringContaining(`@${caller.tenantId}.acme.fedi/`) },
      { account: "birds", platform: "x", url: expect.stringMatching(/^https:\/\/x\.com\/i\/web\/status\/\d+$/) },
    ]);
    expect(up).toMatchObject({ status: "published", url: `${base}/${article.slug}` });
    expect([2, 3]).toContain(up.revision);
    const once = ["created"];
    expect(await effects(article, title)).toEqual({ pages: ["created", "created"], bluesky: once, mastodon: once, x: once });
    for (const { url } of up.published_to) expect((await send(pathOf(url))).status).toBe(200);
    const told = await payloads(caller, ...Object.values(instances));
    const own = { content_id: article.id, brand: "acme" };
    expect(told.filter(({ type }) => type === "content.published")).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ ...own, site: "main", platform: "store", url: `${base}/${article.slug}` }),
        expect.objectContaining({ ...own, site: "shop", platform: "store", url: `${base}/shop/${article.slug}` }),
      ]),
    );
    expect(told.filter(({ type }) => type === "social.posted")).toEqual(
      expect.arrayContaining(
        up.posts.map(({ account, platform, uri, url }: Json) => expect.objectContaining({ ...own, account, platform, uri, post_url: url })),
      ),
    );
  });
  it("an article on two sites is in the index and the feed of each site, with the page of that site", async () => {
    const { caller, article } = await drafted();
    await askToPublish(caller, article);
    const { published_to } = await standsAt(caller, article.id, EVERYWHERE);
    const [main, shop] = published_to.map(({ url }: Json) => url);
    expect(await listed(caller, "acme")).toEqual({ status: 200, links: [main], feed: [main] });
    expect(await listed(caller, "acme/shop")).toEqual({ status: 200, links: [shop], feed: [shop] });
    expect((await send(`/pages/${caller.tenantId}/acme/shop`)).status).toBe(308);
    expect((await listed(caller, "acme/other")).status).toBe(404);
    expect((await send(pathOf(shop))).body).toContain(`/pages/${caller.tenantId}/acme/shop/feed.xml`);
  });
  it("an article on two sites is announced with the page of the announced site", async () => {
    const { caller, article, title } = await drafted({ announced_site: "shop" });
    await askToPublish(caller, article);
    const { published_to } = await standsAt(caller, article.id, EVERYWHERE);
    const { calls } = await ledger({ upstream: "x", match: title });
    expect(calls.map(({ subject }) => subject.endsWith(` ${published_to[1].url}`))).toEqual([true]);
  });
  it("an article on two sites asks once for an approval, and is then published on all sites", async () => {
    const { caller, article, title } = await drafted({ approval: "required" });
    await askToPublish(caller, article);
    const look = () => caller.get(`/v1/articles/${article.id}`);
    const { approval_id } = (await until(look, ({ body }) => body.approval_id !== null)).body;
    expect((await caller.get("/v1/approvals?state=pending")).body.items).toHaveLength(1);
    expect(await effects(article, title)).toEqual({ pages: [], bluesky: [], mastodon: [], x: [] });
    await caller.post(`/v1/approvals/${approval_id}/approve`, { reason: "good" });
    await standsAt(caller, article.id, EVERYWHERE);
    expect((await caller.get("/v1/approvals")).body.items).toHaveLength(1);
  });
  it("a rejected article is published on no site", async () => {
    const { caller, article, title, instances } = await drafted({ approval: "required" });
    await askToPublish(caller, article);
    const look = () => caller.get(`/v1/articles/${article.id}`);
    const { approval_id } = (await until(look, ({ body }) => body.approval_id !== null)).body;
    await caller.post(`/v1/approvals/${approval_id}/reject`, { reason: "no" });
    await reaches(caller, instances.main, "complete");
    expect(statusesIn((await look()).body)).toEqual({
      main: "none",
      shop: "none",
      "main on bluesky": "none",
      "fedi on mastodon": "none",
      "birds on x": "none",
    });
    expect(await effects(article, title)).toEqual({ pages: [], bluesky: [], mastodon: [], x: [] });
  });
});
describe("A failed publication at one target", () => {
  it.each([["shop"], ["main"]] as const)(
    "a failure at the site %s does not affect the other targets, and a retry repeats only that site",
    async (failing) => {
      const { caller, article, title, instances } = await drafted();
      const path = failing === "shop" ? `acme/shop/${article.slug}` : `acme/${article.slug}`;
      await inject({ upstream: "pages", match: path, status: 400, remaining: null });
      await askToPublish(caller, article);
      await reaches(caller, instances[failing], "errored");
      const other = failing === "shop" ? "main" : "shop";
      const partly = await standsAt(caller, article.id, { [failing]: "failed", [other]: "published" });
      expect(partly).toMatchObject({ status: "published", url: partly.published_to.find(({ site }: Json) => site === other).url });
      await inject();
      const asked = await caller.post(`/v1/articles/${article.id}/publish`, { reason: "it works again", site: failing });
      expect(asked.body).toMatchObject({ sites: [{ site: failing }], instance_id: instances[failing] });
      await standsAt(caller, article.id, EVERYWHERE);
      const { pages, ...posts } = await effects(article, title);
      expect(pages.filter((outcome) => outcome !== "refused")).toEqual(["created", "created"]);
      expect(posts).toEqual({ bluesky: ["created"], mastodon: ["created"], x: ["created"] });
    },
  );
  it.each([
    ["bluesky", "social", "main on bluesky"],
    ["mastodon", "mastodon", "fedi on mastodon"],
    ["x", "x", "birds on x"],
  ] as const)(
    "a failure at the account on %s does not affect the other targets, and a retry repeats only that account",
    async (platform, upstream, name) => {
      const { caller, article, title, instances } = await drafted();
      await inject({ upstream, match: title, status: 400, remaining: null });
      await askToPublish(caller, article);
      await standsAt(caller, article.id, { ...EVERYWHERE, [name]: "failed" });
      await inject();
      await retry(caller, instances[platform]);
      await standsAt(caller, article.id, EVERYWHERE);
      const once = ["created"];
      const expected = { pages: ["created", "created"], bluesky: once, mastodon: once, x: once };
      expect(await effects(article, title)).toEqual({ ...expected, [platform]: ["refused", "created"] });
    },
  );
  it("a missing secret is a failure of one target only, and the error of its instance names the variable", async () => {
    const accounts = [...TARGETS.accounts, { name: "more", platform: "mastodon", secret: "more" } as const];
    const sites = [...TARGETS.sites, { name: "blog", kind: "wordpress", secret: "blog" } as const];
    const { caller, article } = await drafted({ accounts, sites });
    await askToPublish(caller, article);
    const { published_to, posts } = await standsAt(caller, article.id, { ...EVERYWHERE, blog: "failed", "more on mastodon": "failed" });
    const variable = `TARGET_${caller.tenantId.toUpperCase().replaceAll("-", "_2D")}__`;
    for (const [{ instance }, secret] of [
      [published_to.find(({ site }: Json) => site === "blog"), "BLOG"],
      [posts.find(({ account }: Json) => account === "more"), "MORE"],
    ]) {
      const { error } = (await caller.get(`/v1/instances/${instance.id}`)).body;
      expect(error).toMatchObject({ code: "config_invalid", message: expect.stringContaining(`${variable}${secret} is not set`) });
    }
  });
});
describe("A site by a secret", () => {
  /** Sets the secret of a tenant, as `wrangler secret put` does. */
  function keep({ tenantId }: Caller, secret: string, value: object | undefined): void {
    Object.assign(env, { [secretVariable(tenantId, secret)]: value && JSON.stringify(value) });
  }
  const blog = { name: "blog", kind: "wordpress", secret: "blog" };
  it("a site with a secret gets the page and has it removed, like the other sites; the secret is in no response and no row", async () => {
    const wordpress = siteOf(fresh("by-secret"));
    const caller = await callerWith();
    keep(caller, "blog", { url: wordpress.url, user: "editor", token: "abcd EFGH 1234" });
    const put = await caller.call("PUT", "/v1/brands/acme", { sites: [...TARGETS.sites, blog] });
    expect(put.status).toBe(200);
    const article = await draft(caller);
    await askToPublish(caller, article);
    const up = await standsAt(caller, article.id, { main: "published", shop: "published", blog: "published" });
    expect(up.published_to[2]).toMatchObject({ kind: "wordpress", url: expect.stringContaining(article.slug) });
    expect(await wordpress.posts()).toMatchObject([{ slug: article.slug, status: "publish" }]);
    await caller.post(`/v1/articles/${article.id}/unpublish`, { reason: "because", site: "blog" });
    const down = await standsAt(caller, article.id, { main: "published", blog: "unpublished" });
    expect(await wordpress.posts()).toMatchObject([{ status: "trash" }]);
    const rows = await env.DB.prepare("SELECT * FROM brands WHERE tenant_id = ?1").bind(caller.tenantId).all();
    const effects = await caller.get(`/v1/instances/${up.published_to[2].instance.id}/effects`);
    for (const told of [put.body, up, down, rows.results, effects.body]) expect(JSON.stringify(told)).not.toContain("EFGH");
  });
  it("a site's secret is not another tenant's: the same secret name is another variable", async () => {
    const [caller, stranger] = [await callerWith(), await callerWith()];
    keep(caller, "blog", { url: "https://blog.example.com", user: "editor", token: "t" });
    expect((await caller.call("PUT", "/v1/brands/acme", { sites: [blog] })).status).toBe(200);
    expectProblem(await stranger.call("PUT", "/v1/brands/acme", { sites: [blog] }), 422, "invalid_payload");
  });
  it("a site fails alone after its secret is removed, and continues once the secret is set again", async () => {
    const wordpress = siteOf(fresh("back-again"));
    const caller = await callerWith();
    const value = { url: wordpress.url, user: "editor", token: "abcd EFGH 1234" };
    keep(caller, "blog", value);
    await caller.call("PUT", "/v1/brands/acme", { sites: [...TARGETS.sites, blog] });
    keep(caller, "blog", undefined);
    const article = await draft(caller);
    await askToPublish(caller, article);
    await standsAt(caller, article.id, { main: "published", shop: "published", blog: "failed" });
    keep(caller, "blog", value);
    await caller.post(`/v1/articles/${article.id}/publish`, { reason: "the secret is restored" });
    await standsAt(caller, article.id, { main: "published", shop: "published", blog: "published" });
    expect(await wordpress.posts()).toHaveLength(1);
  });
});
describe("A lost answer", () => {
  it("a lost response of Mastodon leads to one post: the account's posts are searched first", async () => {
    using _ = skipPauses();
    const { caller, article, title } = await drafted();
    await inject({ upstream: "mastodon", match: title, status: 500, remaining: 1, afterEffect: true });
    await askToPublish(caller, article);
    await standsAt(caller, article.id, EVERYWHERE);
    expect((await effects(article, title)).mastodon).toEqual(["created"]);
  });
  it("a lost response of X is an unknown outcome, which an operator confirms with the post; it is not posted again", async () => {
    const { caller, article, title, instances } = await drafted();
    await inject({ upstream: "x", match: title, status: 502, remaining: 1, afterEffect: true });
    await askToPublish(caller, article);
    await standsAt(caller, article.id, { ...EVERYWHERE, "birds on x": "in_doubt" });
    const [{ key }] = (await caller.get(`/v1/instances/${instances.x}/effects`)).body.items;
    const output = { state: "posted", uri: "1", url: "https://x.com/i/web/status/1" };
    const confirmed = await caller.post(`/v1/effects/${key}/confirm`, { reason: "the post is in the account", output });
    expect(confirmed).toMatchObject({ status: 202 });
    const { posts } = await standsAt(caller, article.id, EVERYWHERE);
    expect(posts[2]).toMatchObject({ account: "birds", url: output.url });
    expect((await effects(article, title)).x).toEqual(["created"]);
  });
  it("a lost response of X that an operator rejects is posted again", async () => {
    const { caller, article, title, instances } = await drafted();
    await inject({ upstream: "x", match: title, status: 502, remaining: 1 });
    await askToPublish(caller, article);
    await standsAt(caller, article.id, { "birds on x": "in_doubt" });
    const [{ key }] = (await caller.get(`/v1/instances/${instances.x}/effects`)).body.items;
    await caller.post(`/v1/effects/${key}/reject`, { reason: "the post is not in the account" });
    await standsAt(caller, article.id, EVERYWHERE);
    expect((await effects(article, title)).x).toEqual(["refused", "created"]);
  });
});
describe("A page that is removed from one site", () => {
  it("a page that is removed from one site remains on the other, where the article is still published; then it is removed from all, and published again on all", async () => {
    const { caller, article, title } = await drafted();
    await askToPublish(caller, article);
    const { published_to } = await standsAt(caller, article.id, EVERYWHERE);
    const [main, shop] = published_to.map(({ url }: Json) => url);
    const say = (verb: string, site?: string) =>
      caller.post(`/v1/articles/${article.id}/${verb}`, { reason: "because", ...(site && { site }) });
    expect((await say("unpublish", "main")).body.sites).toMatchObject([{ site: "main" }]);
    const half = await standsAt(caller, article.id, { main: "unpublished", shop: "published" });
    expect(half).toMatchObject({ status: "published", url: shop });
    expect(await listed(caller, "acme")).toMatchObject({ links: [shop] });
    expect((await send(pathOf(main))).status).toBe(404);
    expectProblem(await say("unpublish", "main"), 409, "invalid_transition");
    expectProblem(await say("unpublish", "other"), 409, "invalid_transition");
    expect((await say("unpublish")).body.sites).toMatchObject([{ site: "shop" }]);
    expect(await standsAt(caller, article.id, { main: "unpublished", shop: "unpublished" })).toMatchObject({ status: "unpublished" });
    expect(await listed(caller, "acme/shop")).toEqual({ status: 200, links: [], feed: [] });
    await env.DB.prepare("UPDATE millrace_instances SET updated_at = updated_at - 3000 WHERE tenant_id = ?1").bind(caller.tenantId).run();
    expect((await say("publish")).body.sites).toMatchObject([{ site: "main" }, { site: "shop" }]);
    const again = await standsAt(caller, article.id, EVERYWHERE);
    expect(again).toMatchObject({ status: "published", url: main });
    const { pages, ...posts } = await effects(article, title);
    expect(pages.toSorted()).toEqual(["created", "created", "created", "created", "removed", "removed"]);
    expect(posts).toEqual({ bluesky: ["created"], mastodon: ["created"], x: ["created"] });
  });
  it("a removed page is published again after its instances are pruned: on all sites, by one command for the first", async () => {
    const { caller, article } = await drafted();
    await askToPublish(caller, article);
    await standsAt(caller, article.id, EVERYWHERE);
    await env.DB.batch(
      ["millrace_inbox", "millrace_instances"].map((table) => {
        const column = table === "millrace_inbox" ? "instance_id" : "id";
        const ids = JSON.stringify(Object.values(instancesOf(caller, article.id)));
        return env.DB.prepare(`DELETE FROM ${table} WHERE ${column} IN (SELECT value FROM json_each(?1))`).bind(ids);
      }),
    );
    const say = (verb: string) => caller.post(`/v1/articles/${article.id}/${verb}`, { reason: "because" });
    expect((await say("unpublish")).body.sites).toMatchObject([{ site: "main" }, { site: "shop" }]);
    expect(await standsAt(caller, article.id, { main: "unpublished", shop: "unpublished" })).toMatchObject({ status: "unpublished" });
    expect((await say("publish")).body.sites).toMatchObject([{ site: "main" }]);
    await standsAt(caller, article.id, { main: "published", shop: "published" });
  });
});
it("a request for one site does not change the other sites, also if a command publishes the page", async () => {
  const { caller, article } = await drafted();
  await askToPublish(caller, article);
  const { revision } = await standsAt(caller, article.id, EVERYWHERE);
  const body = { title: "Newer", revision, update: true };
  const { body: edited } = await caller.call("PATCH", `/v1/articles/${article.id}`, body);
  await reaches(caller, edited.instance_id, "complete");
  await reaches(caller, ids.instance(caller.tenantId, "publish-to-site", `${article.id}/edit/${revision + 1}/shop`), "complete");
  const say = (verb: string, site: string) => caller.post(`/v1/articles/${article.id}/${verb}`, { reason: "because", site });
  for (const site of ["shop", "main"]) {
    await say("unpublish", site);
    await standsAt(caller, article.id, { [site]: "unpublished" });
  }
  const { body: asked } = await say("publish", "main");
  expect(asked.sites).toMatchObject([{ site: "main" }]);
  await reaches(caller, asked.instance_id, "complete");
  await standsAt(caller, article.id, { main: "published", shop: "unpublished" });
  expect((await caller.get(`/v1/instances/${asked.instance_id}/events`)).body.items).toHaveLength(1);
});
describe("A page that was published before brands had sites", () => {
  /** An article on one site, in the form that the version before its table of pages stored. */
  async function earlier() {
    const made = await drafted({ sites: [TARGETS.sites[0]] });
    await askToPublish(made.caller, made.article);
    const { url } = await standsAt(made.caller, made.article.id, { main: "published" });
    await env.DB.batch([
      env.DB.prepare("DELETE FROM article_pages WHERE content_id = ?1").bind(made.article.id),
      env.DB.prepare(
        `UPDATE millrace_inbox SET output = json_remove(output, '$.site', '$.place', '$.kind', '$.edits', '$.again', '$.update')
         WHERE instance_id = ?1 AND step = 'put page'`,
      ).bind(made.instances.main),
    ]);
    return { ...made, url };
  }
  it("a page that was published before brands had sites remains when the article gets one more site", async () => {
    const { caller, article, url } = await earlier();
    await withTargets(caller, "acme");
    await caller.post(`/v1/articles/${article.id}/publish`, { reason: "a new site", site: "shop" });
    const after = await standsAt(caller, article.id, { main: "published", shop: "published" });
    expect(after).toMatchObject({ url, published_to: [{ site: "main", url }, { site: "shop" }] });
  });
  it("a page that was published before brands had sites is removed by the undo of its instance", async () => {
    const { caller, article, instances, url } = await earlier();
    await caller.post(`/v1/articles/${article.id}/unpublish`, { reason: "because" });
    await reaches(caller, instances.main, "terminated");
    await standsAt(caller, article.id, { main: "unpublished" });
    expect((await send(pathOf(url))).status).toBe(404);
  });
});
