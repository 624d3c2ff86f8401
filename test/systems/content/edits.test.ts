import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { type Caller, callerWith, expectProblem, fresh, type Json, reaches, send, until } from "../../api/client.ts";
import { inject, ledger } from "../../providers/embedded.ts";
import { askToPublish, becomes, draft, pathOf, publish, wantsApproval } from "./article.ts";
import { standsAt, withTargets } from "./targets.ts";
import { child, parseXml } from "./xml.ts";

afterEach(() => inject());

const edit = (caller: Caller, { id }: { id: string }, body: object, headers: Record<string, string> = {}) =>
  caller.call("PATCH", `/v1/articles/${id}`, body, headers);
const preview = (caller: Caller, { id }: { id: string }) => caller.get(`/v1/articles/${id}/preview`);
const read = async (caller: Caller, { id }: { id: string }): Promise<Json> => (await caller.get(`/v1/articles/${id}`)).body;

/** The page without its date of publication. */
const dateless = (html: string) => html.replaceAll(/<time[\s\S]*?<\/time>|content="\d{4}-\d\d-\d\d"/g, "");

/** Holds every response of the store about a page with this text in its path, once it is published, until it is released. */
function holdPut(slug: string): { isHeld: () => boolean; release: () => void } {
  const prototype = Object.getPrototypeOf(env.PAGES);
  const { put } = prototype;
  let [isHeld, isReleased] = [false, false];
  onTestFinished(() => {
    prototype.put = put;
    isReleased = true;
  });
  prototype.put = async function (path: string, ...rest: unknown[]) {
    const stored = await put.call(this, path, ...rest);
    isHeld ||= path.includes(slug);
    while (path.includes(slug) && !isReleased) await scheduler.wait(10);
    return stored;
  };
  return { isHeld: () => isHeld, release: () => (isReleased = true) };
}

describe("The preview of a draft", () => {
  it("the preview of a draft is the page that its publication creates, for readers with a token, and for no search engine", async () => {
    const caller = await callerWith();
    const article = await draft(caller, { text: "# Green *tea*\n\nIt is a <b>plant</b>." });
    const { status, body, headers } = await preview(caller, article);
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(headers.get("content-security-policy")).toContain("sandbox");
    expect(headers.get("x-robots-tag")).toBe("noindex");
    expect(headers.get("cache-control")).toBe("no-store");
    const published = await publish(caller, article);
    const page = await send(pathOf(published.url));
    expect(dateless(body)).toBe(dateless(page.body));
    expect((await send(`/v1/articles/${article.id}/preview`)).status).toBe(401);
    expectProblem(await preview(await callerWith(), article), 404, "article_not_found");
  });
});

describe("An edit", () => {
  it("an edit of a draft that waits for an approval is shown by its preview, and published by the approval", async () => {
    const caller = await callerWith();
    await wantsApproval(caller, "careful");
    const article = await draft(caller, { brand: "careful" });
    await askToPublish(caller, article);
    const { body } = await until(
      () => caller.get(`/v1/articles/${article.id}`),
      ({ body }) => body.approval_id !== null,
    );
    const change = { title: "Tea, whole", description: "All of it.", body: "Two words.", key_points: ["It is a plant."], revision: 1 };
    expect((await edit(caller, article, change)).body).toMatchObject({ revision: 2, instance_id: null });
    expect((await preview(caller, article)).body).toContain("<h1>Tea, whole</h1>");
    expect(await read(caller, article)).toMatchObject({
      status: "draft",
      revision: 2,
      title: "Tea, whole",
      key_points: ["It is a plant."],
      word_count: 2,
    });

    await caller.post(`/v1/approvals/${body.approval_id}/approve`, { reason: "Better." });
    const published = await becomes(caller, article, "published");
    expect(published).toMatchObject({ revision: 3, title: "Tea, whole" });
    const page = (await send(pathOf(published.url))).body;
    expect(page).toContain("<h1>Tea, whole</h1>");
    expect(page).toContain('<meta name="description" content="All of it.">');
    const { items } = (await caller.get(`/v1/audit?target=${article.id}`)).body;
    expect(items.find(({ verb }: Json) => verb === "edit")).toMatchObject({ result: "applied", detail: { revision: 2 } });
  });

  it("an edit names the revision that it is based on, in the body or as If-Match; a second edit of the same revision is refused", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    expectProblem(await edit(caller, article, { title: "A" }), 422, "invalid_payload");
    expectProblem(await edit(caller, article, { revision: 1 }), 422, "invalid_payload");
    expectProblem(await edit(caller, article, { title: "A", revision: 2 }), 412, "revision_conflict");
    const [one, other] = await Promise.all([
      edit(caller, article, { title: "One", revision: 1 }),
      edit(caller, article, { title: "Other" }, { "if-match": '"1"' }),
    ]);
    expect([one.status, other.status].sort()).toEqual([200, 412]);
    expect(await read(caller, article)).toMatchObject({ revision: 2, title: one.status === 200 ? "One" : "Other" });
    expectProblem(await edit(await callerWith(["read"], caller.tenantId), article, { title: "B", revision: 2 }), 403, "forbidden");
    expectProblem(await edit(await callerWith(), article, { title: "B", revision: 2 }), 404, "article_not_found");
  });

  it("an edit while the page is being published is on the page in the end", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    const { isHeld, release } = holdPut(article.slug);
    const instance = await askToPublish(caller, article);
    await until(async () => isHeld(), Boolean);
    expect((await edit(caller, article, { body: "Written meanwhile.", revision: 1 })).status).toBe(200);
    release();
    await reaches(caller, instance, "complete");
    const published = await read(caller, article);
    expect(published).toMatchObject({ status: "published", revision: 3 });
    expect((await send(pathOf(published.url))).body).toContain("Written meanwhile.");
  });

  it("an edit of a rejected article is refused, and an edit of an unpublished article is shown by the next publication", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    const published = await publish(caller, article);
    await caller.post(`/v1/articles/${article.id}/unpublish`, { reason: "because" });
    const gone = await becomes(caller, article, "unpublished");
    expect((await edit(caller, article, { title: "Green again", revision: gone.revision })).status).toBe(200);
    await env.DB.prepare("UPDATE millrace_instances SET updated_at = updated_at - 3000 WHERE id = ?1")
      .bind(published.instances.publish.id)
      .run();
    await caller.post(`/v1/articles/${article.id}/publish`, { reason: "because" });
    await becomes(caller, article, "published");
    expect((await send(pathOf(published.url))).body).toContain("<h1>Green again</h1>");

    await env.DB.prepare("UPDATE articles SET status = 'rejected' WHERE id = ?1").bind(article.id).run();
    const { revision } = await read(caller, article);
    expectProblem(await edit(caller, article, { title: "No", revision }), 409, "invalid_transition");
  });
});

describe("An update of a published article", () => {
  it("an update of a published article replaces its page at the same URL, keeps its place in the feed, and announces nothing", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    await publish(caller, article);
    const posted = await until(
      () => read(caller, article),
      ({ post_uri }) => post_uri !== null,
    );
    const item = async () => {
      const { body } = await send(`/pages/${caller.tenantId}/acme/feed.xml`);
      const entry = child(child(parseXml(body), "channel"), "item");
      return { guid: child(entry, "guid").text, at: child(entry, "pubDate").text, title: child(entry, "title").text };
    };
    const before = await item();
    expectProblem(await edit(caller, article, { title: "Newer tea", revision: 2 }), 409, "invalid_transition");

    const edited = await edit(caller, article, { title: "Newer tea", revision: 2, update: true });
    expect(edited).toMatchObject({ status: 200, body: { revision: 3, instance_id: expect.any(String) } });
    await reaches(caller, edited.body.instance_id, "complete");
    const after = await read(caller, article);
    expect(after).toMatchObject({ status: "published", revision: 4, url: posted.url, published_at: posted.published_at });
    expect(after.post_uri).toBe(posted.post_uri);
    expect((await send(pathOf(after.url))).body).toContain("<h1>Newer tea</h1>");
    expect(await item()).toEqual({ ...before, title: "Newer tea" });
    expect((await ledger({ upstream: "pages", match: article.slug })).calls.map(({ outcome }) => outcome)).toEqual(["created", "replaced"]);
    const { body } = await until(
      () => caller.get(`/v1/instances/${edited.body.instance_id}/events`),
      ({ body }) => body.items.every(({ confirmed }: Json) => confirmed),
    );
    expect(body.items.map(({ message_type }: Json) => message_type)).toEqual(["content.published"]);
    expect((await ledger({ upstream: "social", match: posted.url })).calls).toHaveLength(1);

    await caller.post(`/v1/articles/${article.id}/unpublish`, { reason: "because" });
    expect(await becomes(caller, article, "unpublished")).toMatchObject({ revision: 5 });
    expect((await send(pathOf(after.url))).status).toBe(404);
  });

  it("the undo of an older publication is refused after an update, because its revision is not the current one", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    const published = await publish(caller, article);
    const edited = await edit(caller, article, { title: "Newer tea", revision: 2, update: true });
    await reaches(caller, edited.body.instance_id, "complete");
    const { id } = published.instances.publish;
    await caller.post(`/v1/instances/${id}/undo`, { reason: "because" });
    const { error } = await reaches(caller, id, "errored");
    expect(error).toMatchObject({ code: "not_retryable", message: expect.stringContaining("updated since, in revision 4") });
    expect(await read(caller, article)).toMatchObject({ status: "published", revision: 4 });
  });

  it("the undo of a publication that another instance has repeated is refused", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    const { instances } = await publish(caller, article);
    const command = { type: "content.publish", payload: { content_id: article.id, brand: "acme" } };
    const { body } = await caller.post("/v1/commands", command, { "idempotency-key": fresh("again") });
    await reaches(caller, body.instance_id, "complete");
    await caller.post(`/v1/instances/${instances.publish.id}/undo`, { reason: "because" });
    await reaches(caller, instances.publish.id, "errored");
    expect(await read(caller, article)).toMatchObject({ status: "published", published_to: [{ status: "published", revision: 3 }] });
  });

  it("an update that fails at one of two sites leaves that page to be unpublished, and a retry does not restore it", async () => {
    const caller = await callerWith();
    await withTargets(caller, "acme");
    const article = await draft(caller);
    await askToPublish(caller, article);
    const { revision, published_to } = await standsAt(caller, article.id, { main: "published", shop: "published" });
    await inject({ upstream: "pages", match: `acme/${article.slug}`, status: 400, remaining: null });
    const { body: edited } = await edit(caller, article, { title: "Newer", revision, update: true });
    await reaches(caller, edited.instance_id, "errored");
    await inject();

    await caller.post(`/v1/articles/${article.id}/unpublish`, { reason: "because", site: "main" });
    await standsAt(caller, article.id, { main: "unpublished", shop: "published" });
    await caller.post(`/v1/instances/${edited.instance_id}/retry`, { reason: "it works again" });
    await reaches(caller, edited.instance_id, "complete");
    expect((await caller.get(`/v1/instances/${edited.instance_id}/events`)).body.items).not.toContainEqual(
      expect.objectContaining({ message_type: "content.published" }),
    );
    await standsAt(caller, article.id, { main: "unpublished", shop: "published" });
    expect((await send(pathOf(published_to[0].url))).status).toBe(404);
    expect((await send(pathOf(published_to[1].url))).body).toContain("<h1>Newer</h1>");
  });

  it("an article that is unpublished while its page is being updated ends with the page removed", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    const { url, revision } = await publish(caller, article);
    const held = holdPut(article.slug);
    const { body: edited } = await edit(caller, article, { title: "Newer", revision, update: true });
    await until(async () => held.isHeld(), Boolean);
    await caller.post(`/v1/articles/${article.id}/unpublish`, { reason: "because" });
    await becomes(caller, article, "unpublished");
    held.release();
    await reaches(caller, edited.instance_id, "complete");
    expect(await read(caller, article)).toMatchObject({ status: "unpublished" });
    expect((await send(pathOf(url))).status).toBe(404);
  });

  it("an updated article after a failed undo is unpublished by its own instance, and published again", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    const { instances, revision } = await publish(caller, article);
    const say = (verb: string) => caller.post(`/v1/articles/${article.id}/${verb}`, { reason: "because" });
    await inject({ upstream: "pages", match: article.slug, status: 400, remaining: null });
    await say("unpublish");
    await reaches(caller, instances.publish.id, "errored");
    await inject();
    const { body: edited } = await edit(caller, article, { title: "Newer", revision, update: true });
    await reaches(caller, edited.instance_id, "complete");
    await say("unpublish");
    await becomes(caller, article, "unpublished");
    await say("publish");
    await becomes(caller, article, "published");
  });

  it("an update announces nothing on an account that the brand got later, nor again after the first post's instance is pruned", async () => {
    const caller = await callerWith();
    await withTargets(caller, "acme", { accounts: [{ name: "main", platform: "bluesky" }] });
    const article = await draft(caller);
    await askToPublish(caller, article);
    const { url, revision, posts } = await standsAt(caller, article.id, { main: "published", "main on bluesky": "posted" });
    const { id } = posts[0].instance;
    await env.DB.batch([
      env.DB.prepare("DELETE FROM millrace_inbox WHERE instance_id = ?1").bind(id),
      env.DB.prepare("DELETE FROM millrace_instances WHERE id = ?1").bind(id),
    ]);
    await withTargets(caller, "acme");
    const { body: edited } = await edit(caller, article, { title: "Newer", revision, update: true });
    await reaches(caller, edited.instance_id, "complete");
    const { body } = await until(
      () => caller.get(`/v1/instances/${edited.instance_id}/events?payload=true`),
      ({ body }) => body.items.length > 0 && body.items.every(({ confirmed }: Json) => confirmed),
    );
    const told = body.items.find(({ message_type }: Json) => message_type === "content.published");
    expect(told.payload_inline).toMatchObject({ again: true });
    expect((await caller.get(`/v1/instances?workflow=post-to-social`)).body.items).toEqual([]);
    expect((await ledger({ upstream: "social", match: url })).calls).toHaveLength(1);
  });

  it("an update reaches each site with its page, leaves a removed page removed, and announces nothing", async () => {
    const caller = await callerWith();
    await withTargets(caller, "acme");
    const article = await draft(caller, { text: `# ${fresh("Tea")}\n\nText.` });
    await askToPublish(caller, article);
    const posted = { "main on bluesky": "posted", "fedi on mastodon": "posted", "birds on x": "posted" };
    const before = await standsAt(caller, article.id, { main: "published", shop: "published", ...posted });
    const outcomes = async (upstream: string, match: string) => (await ledger({ upstream, match })).calls.map(({ outcome }) => outcome);
    const has = (title: string) => async () => {
      const pages = await Promise.all(before.published_to.map(({ url }: Json) => send(pathOf(url))));
      return pages.map(({ status, body }) => (status === 200 ? String(body).includes(`<h1>${title}</h1>`) : status));
    };
    const update = async (title: string) => {
      const { revision } = await read(caller, article);
      const { body } = await edit(caller, article, { title, revision, update: true });
      await reaches(caller, body.instance_id, "complete");
      return body.instance_id;
    };

    const shop = ids.instance(caller.tenantId, "publish-to-site", `${article.id}/edit/${before.revision + 1}/shop`);
    const main = await update("Newer");
    await reaches(caller, shop, "complete");
    expect(await has("Newer")()).toEqual([true, true]);

    await caller.post(`/v1/articles/${article.id}/unpublish`, { reason: "because", site: "shop" });
    await standsAt(caller, article.id, { main: "published", shop: "unpublished" });
    const last = await update("Newest");
    expect(await has("Newest")()).toEqual([true, 404]);
    const { body } = await caller.get(`/v1/instances/${last}/events`);
    expect(body.items.map(({ message_type }: Json) => message_type)).toEqual(["content.published"]);
    expect(await outcomes("pages", article.slug)).toHaveLength(6);

    // Each event names the announced site, and its commands are those of the first publication.
    await until(
      async () => Promise.all([main, shop, last].map((id) => caller.get(`/v1/instances/${id}/events`))),
      (all) => all.every(({ body }) => body.items.every(({ confirmed }: Json) => confirmed)),
    );
    for (const upstream of ["social", "mastodon", "x"]) expect(await outcomes(upstream, before.url)).toEqual(["created"]);
  });

  it("an update needs no approval, also of a brand with approval, because an operator has written it", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    await publish(caller, article);
    await wantsApproval(caller, "acme");
    const edited = await edit(caller, article, { body: "By hand.", revision: 2, update: true });
    await reaches(caller, edited.body.instance_id, "complete");
    expect((await caller.get("/v1/approvals")).body.items).toEqual([]);
  });
});

it("content.unpublish, sent directly, removes the page of the published revision; it requires the scope operate", async () => {
  const caller = await callerWith();
  const article = await draft(caller);
  const published = await publish(caller, article);
  const command = { type: "content.unpublish", payload: { content_id: article.id, brand: "acme", revision: 2 } };
  const clerk = await callerWith(["enqueue", "read"], caller.tenantId);
  expectProblem(await clerk.post("/v1/commands", command), 403, "forbidden");
  const { body } = await caller.post("/v1/commands", command);
  await reaches(caller, body.instance_id, "complete");
  expect(await becomes(caller, article, "unpublished")).toMatchObject({ revision: 3 });
  expect((await send(pathOf(published.url))).status).toBe(404);
});
