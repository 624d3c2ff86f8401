import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it } from "vitest";
import type { Article } from "../../../src/systems/content/articles.ts";
import { type Caller, callerWith, expectProblem, type Json, reaches, send, until } from "../../api/client.ts";
import { inject, ledger } from "../../providers/embedded.ts";
import { becomes, draft, noApproval, pathOf, publish, wantsApproval } from "./article.ts";
import { child, parseXml } from "./xml.ts";

afterEach(() => inject());

/** Runs a verb on an article, and waits until it and its instance have these statuses. */
async function says(
  caller: Caller,
  { id }: { id: string },
  verb: "publish" | "unpublish",
  status: string,
  instance: string,
): Promise<Json> {
  const answer = await caller.post(`/v1/articles/${id}/${verb}`, { reason: "because" });
  expect(answer).toMatchObject({ status: 202, body: { action_id: expect.any(String) } });
  const { body } = await until(
    () => caller.get(`/v1/articles/${id}`),
    ({ body }) => body.status === status && body.instances.publish.status === instance,
  );
  expect(body).toMatchObject({ status, instances: { publish: { id: answer.body.instance_id, status: instance } } });
  return body;
}

/** Removes the article, some seconds ago: publishing again waits until that is two seconds old, as test/engine/operate tests. */
async function takeDown(caller: Caller, article: { id: string }): Promise<Json> {
  const taken = await says(caller, article, "unpublish", "unpublished", "terminated");
  await env.DB.prepare("UPDATE millrace_instances SET updated_at = updated_at - 3000 WHERE id = ?1").bind(taken.instances.publish.id).run();
  return taken;
}

const putUpAgain = (caller: Caller, article: { id: string }) => says(caller, article, "publish", "published", "complete");

/** The articles in the brand's index and feed, and the response of each page. */
async function seen({ tenantId }: Caller, { url }: { url: string }) {
  const index = await send(`/pages/${tenantId}/acme/`);
  const feed = await send(`/pages/${tenantId}/acme/feed.xml`);
  const items = child(parseXml(feed.body), "channel").children.filter(({ name }) => name === "item");
  return {
    page: (await send(pathOf(url))).status,
    index: [...index.body.matchAll(/<h2><a href="([^"]+)"/g)].map(([, link]) => link),
    feed: items.map((item) => [child(item, "guid").text, child(item, "pubDate").text]),
  };
}

async function events(caller: Caller, instance: string): Promise<[string, number][]> {
  const { body } = await caller.get(`/v1/instances/${instance}/events?payload=true`);
  return body.items
    .map(({ message_type, payload_inline }: Json): [string, number] => [message_type, payload_inline.revision])
    .sort(([, one]: [string, number], [, other]: [string, number]) => one - other);
}

const callsAbout = async ({ slug }: Article) => (await ledger({ upstream: "pages", match: slug })).calls;

describe("An article that is removed", () => {
  it("a removed article leaves its page, the index and the feed; its content and place are kept", async () => {
    const caller = await callerWith();
    const [article, other] = [await draft(caller), await draft(caller)];
    const published = await publish(caller, article);
    const stays = await publish(caller, other);
    const gone = await takeDown(caller, article);
    expect(gone).toMatchObject({ revision: 3, url: published.url, published_at: published.published_at });
    expect(await seen(caller, published)).toMatchObject({ page: 404, index: [stays.url], feed: [[other.id, expect.any(String)]] });
    expect(await events(caller, published.instances.publish.id)).toEqual([
      ["content.published", 2],
      ["content.unpublished", 3],
    ]);
    expect((await callsAbout(article)).map(({ outcome }) => outcome)).toEqual(["created", "removed"]);
  });

  it("a removed article that was the only one leaves an empty index and an empty feed", async () => {
    const caller = await callerWith();
    const published = await publish(caller, await draft(caller));
    await takeDown(caller, published);
    expect(await seen(caller, published)).toEqual({ page: 404, index: [], feed: [] });
  });

  it("a removed article is unchanged when it is published again, at the same URL and place in the feed, with one call of the store each time", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    const published = await publish(caller, article);
    const before = await seen(caller, published);
    for (const round of [1, 2]) {
      expect(await takeDown(caller, article)).toMatchObject({ revision: 2 * round + 1 });
      const again = await putUpAgain(caller, article);
      expect(again).toMatchObject({ revision: 2 * round + 2, url: published.url, published_at: published.published_at });
      expect(await seen(caller, published)).toEqual(before);
    }
    expect(await events(caller, published.instances.publish.id)).toEqual([
      ["content.published", 2],
      ["content.unpublished", 3],
      ["content.published", 4],
      ["content.unpublished", 5],
      ["content.published", 6],
    ]);
    const calls = await callsAbout(article);
    expect(calls.map(({ outcome }) => outcome)).toEqual(["created", "removed", "created", "removed", "created"]);
    expect(new Set(calls.map(({ key }) => key)).size).toBe(5);
  });

  it("an article is announced once, for any number of publications, and the post remains", async () => {
    const caller = await callerWith();
    const article = await publish(caller, await draft(caller));
    const posted = async () => (await caller.get(`/v1/articles/${article.id}`)).body.post_uri;
    const uri = await until(posted, (uri) => uri !== null);
    await takeDown(caller, article);
    expect(await posted()).toBe(uri);
    const { instances } = await putUpAgain(caller, article);
    const events = () => caller.get(`/v1/instances/${instances.publish.id}/events`);
    const allRouted = await until(events, ({ body }) => body.items.length === 3 && body.items.every((one: Json) => one.confirmed));
    expect(allRouted.body.items.map(({ confirmed }: Json) => confirmed)).toEqual([true, true, true]);
    await reaches(caller, instances.social.id, "complete");
    expect((await ledger({ upstream: "social", match: article.url })).calls).toHaveLength(1);
  });

  it("an article that is removed before its announcement is not announced", async () => {
    const caller = await callerWith();
    const article = await draft(caller, { keyword: "quiet tea", text: "# A quiet tea\n\nText." });
    await inject({ upstream: "social", match: article.slug, status: 400, remaining: null });
    await publish(caller, article);
    const look = () => caller.get(`/v1/articles/${article.id}`);
    const { instances } = (await until(look, ({ body }) => body.instances.social !== null)).body;
    await reaches(caller, instances.social.id, "errored");
    await takeDown(caller, article);
    await inject();
    await caller.post(`/v1/instances/${instances.social.id}/retry`, { reason: "the account works again" });
    await reaches(caller, instances.social.id, "complete");
    expect((await caller.get(`/v1/articles/${article.id}`)).body.post_uri).toBeNull();
    expect((await ledger({ upstream: "social", match: "A quiet tea" })).totals.social).toMatchObject({ created: 0 });
  });
});

describe("A second publication", () => {
  it.each([
    ["the brand requires an approval now", noApproval, wantsApproval],
    ["the brand required an approval and no longer does", wantsApproval, noApproval],
  ])("a second publication asks no question, also when %s, because the instance keeps its first setting", async (_, first, then) => {
    const caller = await callerWith();
    await first(caller, "fickle");
    const article = await draft(caller, { brand: "fickle" });
    const { body } = await caller.post("/v1/commands", { type: "content.publish", payload: { content_id: article.id, brand: "fickle" } });
    if (first === wantsApproval) {
      const { approval_id } = (
        await until(
          () => caller.get(`/v1/articles/${article.id}`),
          ({ body }) => body.approval_id !== null,
        )
      ).body;
      await caller.post(`/v1/approvals/${approval_id}/approve`, { reason: "good" });
    }
    await becomes(caller, article, "published");
    await reaches(caller, body.instance_id, "complete");
    const questions = (await caller.get("/v1/approvals")).body.items.length;
    await then(caller, "fickle");
    await takeDown(caller, article);
    expect(await putUpAgain(caller, article)).toMatchObject({ revision: 4 });
    expect((await caller.get("/v1/approvals")).body.items).toHaveLength(questions);
  });

  it("a second publication or a removal is refused in the wrong state, and changes nothing", async () => {
    const caller = await callerWith();
    const article = await publish(caller, await draft(caller));
    const ask = (verb: string) => caller.post(`/v1/articles/${article.id}/${verb}`, { reason: "because" });
    expect(expectProblem(await ask("publish"), 409, "invalid_transition")).toMatchObject({ from: "published", to: "published" });
    await takeDown(caller, article);
    expect(expectProblem(await ask("unpublish"), 409, "invalid_transition")).toMatchObject({ from: "unpublished", to: "unpublished" });
    expect((await caller.get(`/v1/articles/${article.id}`)).body).toMatchObject({ status: "unpublished", revision: 3 });
  });

  it("two concurrent requests for a second publication of an article publish it once, and two for its removal remove it once", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    const published = await publish(caller, article);
    for (const [verb, status, instance] of [
      ["unpublish", "unpublished", "terminated"],
      ["publish", "published", "complete"],
    ] as const) {
      const answers = await Promise.all([1, 2, 3].map(() => caller.post(`/v1/articles/${article.id}/${verb}`, { reason: "because" })));
      expect(answers.map(({ status }) => status).sort()).toEqual([202, 409, 409]);
      await becomes(caller, article, status);
      await reaches(caller, published.instances.publish.id, instance);
    }
    expect((await callsAbout(article)).map(({ outcome }) => outcome)).toEqual(["created", "removed", "created"]);
  });
});

describe("A page store that fails", () => {
  it("a page store that fails during a removal leaves the article unchanged; a second request continues and removes it once", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    const published = await publish(caller, article);
    await inject({ upstream: "pages", match: article.slug, status: 400, remaining: null });
    expect((await caller.post(`/v1/articles/${article.id}/unpublish`, { reason: "because" })).status).toBe(202);
    await reaches(caller, published.instances.publish.id, "errored");
    expect(await seen(caller, published)).toMatchObject({ page: 200, index: [published.url] });
    expect((await caller.get(`/v1/articles/${article.id}`)).body).toMatchObject({ status: "published", revision: 2 });

    await inject();
    expect(await takeDown(caller, article)).toMatchObject({ revision: 3 });
    expect(await seen(caller, published)).toMatchObject({ page: 404, index: [] });
    expect((await ledger({ upstream: "pages", match: article.slug })).totals.pages).toMatchObject({ created: 1, removed: 1 });
  });

  it("a step that died after it stored the page runs again under the same key: one page, one event", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    await inject({ upstream: "pages", match: article.slug, status: 502, remaining: 1, afterEffect: true });
    const published = await publish(caller, article);
    const calls = await callsAbout(article);
    expect(calls.map(({ outcome }) => outcome)).toEqual(["created", "replaced"]);
    expect(new Set(calls.map(({ key }) => key)).size).toBe(1);
    expect(await events(caller, published.instances.publish.id)).toEqual([["content.published", 2]]);
  });
});
