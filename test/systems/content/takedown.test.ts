import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { takeDown } from "../../../src/systems/content/page-store.ts";
import { type Caller, callerWith, expectProblem, type Json, reaches, send } from "../../api/client.ts";
import { becomes, draft, pathOf, publish } from "./article.ts";
import { child, parseXml } from "./xml.ts";

const REASON = { reason: "a court order" };
const ELSEWHERE = "http pages.example.com/old";

/** Runs a verb on an article, and returns the result. */
async function says(caller: Caller, { id }: Json, verb: "publish" | "unpublish"): Promise<Json> {
  const answer = await caller.post(`/v1/articles/${id}/${verb}`, REASON);
  expect(answer).toMatchObject({ status: 202, body: { action_id: expect.any(String), instance_id: expect.any(String) } });
  const article = await becomes(caller, { id }, `${verb}ed`);
  return { ...article, instance: answer.body.instance_id };
}

/** Sends the command itself. */
async function command(caller: Caller, { id, brand }: Json, revision: number): Promise<string> {
  const asked = await caller.post("/v1/commands", { type: "content.unpublish", payload: { content_id: id, brand, revision } });
  expect(asked.status).toBe(202);
  return asked.body.instance_id;
}

/** Simulates that 30 days have passed: the instance that published the article is deleted. */
async function prune(id: string): Promise<void> {
  await env.DB.batch(
    ["DELETE FROM millrace_inbox WHERE instance_id = ?1", "DELETE FROM millrace_instances WHERE id = ?1"].map((text) =>
      env.DB.prepare(text).bind(id),
    ),
  );
}

async function seen({ tenantId }: Caller, { url }: Json) {
  const index = await send(`/pages/${tenantId}/acme/`);
  const feed = child(parseXml((await send(`/pages/${tenantId}/acme/feed.xml`)).body), "channel");
  return {
    page: (await send(pathOf(url))).status,
    index: [...index.body.matchAll(/<h2><a href="([^"]+)"/g)].map(([, link]) => link),
    feed: feed.children.filter(({ name }) => name === "item").length,
  };
}

describe("A page", () => {
  it("a page is removed after its instance is pruned, published again and removed again, each time as requested", async () => {
    const caller = await callerWith();
    const up = await publish(caller, await draft(caller));
    await prune(up.instances.publish.id);
    const down = await says(caller, up, "unpublish");
    expect(down).toMatchObject({ revision: 3, url: up.url });
    expect(await seen(caller, up)).toEqual({ page: 404, index: [], feed: 0 });
    await reaches(caller, down.instance, "complete");
    const { items } = (await caller.get(`/v1/instances/${down.instance}/events`)).body;
    expect(items).toMatchObject([{ message_type: "content.unpublished" }]);

    expect(await says(caller, up, "publish")).toMatchObject({ revision: 4, url: up.url, published_at: up.published_at });
    expect(await seen(caller, up)).toEqual({ page: 200, index: [up.url], feed: 1 });
    expect(await says(caller, up, "unpublish")).toMatchObject({ revision: 5 });
    expect(await seen(caller, up)).toEqual({ page: 404, index: [], feed: 0 });
    const audit = (await caller.get("/v1/audit")).body.items;
    expect(audit.map(({ verb, target, result }: Json) => [verb, target, result])).toEqual([
      ["unpublish", up.id, "applied"],
      ["publish", up.id, "applied"],
      ["unpublish", up.id, "applied"],
    ]);
  });

  it("a page is neither published nor removed twice: a late request is refused and audited with the reason", async () => {
    const caller = await callerWith();
    const up = await publish(caller, await draft(caller));
    expectProblem(await caller.post(`/v1/articles/${up.id}/publish`, REASON), 409, "invalid_transition");
    await says(caller, up, "unpublish");
    expectProblem(await caller.post(`/v1/articles/${up.id}/unpublish`, REASON), 409, "invalid_transition");
    const audit = (await caller.get("/v1/audit")).body.items;
    expect(audit.map(({ verb, result, reason }: Json) => [verb, result, reason]).reverse()).toEqual([
      ["publish", "no_change", REASON.reason],
      ["undo", "applied", REASON.reason],
      ["unpublish", "no_change", REASON.reason],
    ]);
  });

  it("a page is removed by a separate command while its instance is kept; a page that another instance has published since is not affected", async () => {
    const caller = await callerWith();
    const up = await publish(caller, await draft(caller));
    await reaches(caller, await command(caller, up, 2), "complete");
    expect(await becomes(caller, up, "unpublished")).toMatchObject({ revision: 3, instances: { publish: { status: "complete" } } });
    const again = await says(caller, up, "publish");
    expect(again.revision).toBe(4);
    const down = await says(caller, up, "unpublish");
    expect(down.revision).toBe(5);
    expect([again.instance, down.instance]).not.toContain(up.instances.publish.id);
    expect(await seen(caller, up)).toMatchObject({ page: 404 });
  });

  it("a page that is already removed is unchanged, and the removal of a page in another revision is refused", async () => {
    const caller = await callerWith();
    const up = await publish(caller, await draft(caller));
    const wrong = await reaches(caller, await command(caller, up, 7), "errored");
    expect(wrong.error).toMatchObject({ code: "not_retryable", message: expect.stringContaining("in revision 2, not 7") });
    expect(await seen(caller, up)).toMatchObject({ page: 200 });
    await says(caller, up, "unpublish");
    const late = await reaches(caller, await command(caller, up, 2), "complete");
    expect(late.result).toMatchObject({ state: "skipped", why: expect.stringContaining("unpublished") });
    expect((await becomes(caller, up, "unpublished")).revision).toBe(3);
  });
});

describe("A page in a store other than the configured one", () => {
  /** Simulates that the page was published while PAGES_URL named another store. */
  async function moved(id: string, instance: string, store: string) {
    await env.DB.batch([
      env.DB.prepare("UPDATE article_pages SET store = ?2 WHERE content_id = ?1").bind(id, store),
      env.DB.prepare("UPDATE millrace_inbox SET output = json_set(output, '$.store', ?2) WHERE instance_id = ?1").bind(instance, store),
    ]);
  }
  const REFUSED = {
    code: "config_invalid",
    message: expect.stringContaining(`published in the store "${ELSEWHERE}", but PAGES_PROVIDER and PAGES_URL name "embedded"`),
  };

  it("a page in another store is not removed by an undo, and not reported as removed; with the earlier setting the undo continues", async () => {
    const caller = await callerWith();
    const up = await publish(caller, await draft(caller));
    const { id } = up.instances.publish;
    await moved(up.id, id, ELSEWHERE);
    await caller.post(`/v1/articles/${up.id}/unpublish`, REASON);
    expect((await reaches(caller, id, "errored")).error).toMatchObject(REFUSED);
    expect(await becomes(caller, up, "published")).toMatchObject({ revision: 2 });
    expect(await seen(caller, up)).toEqual({ page: 200, index: [up.url], feed: 1 });
    await moved(up.id, id, "embedded");
    await says(caller, up, "unpublish");
    expect(await seen(caller, up)).toEqual({ page: 404, index: [], feed: 0 });
  });

  it("a page in another store is not removed by a command, nor published in a second store", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    const up = await publish(caller, article);
    await moved(up.id, up.instances.publish.id, ELSEWHERE);
    expect((await reaches(caller, await command(caller, up, 2), "errored")).error).toMatchObject(REFUSED);
    const payload = { content_id: up.id, brand: "acme" };
    const second = await caller.post("/v1/commands", { type: "content.publish", payload }, { "idempotency-key": "once more" });
    expect((await reaches(caller, second.body.instance_id, "errored")).error).toMatchObject(REFUSED);
    expect(await seen(caller, up)).toMatchObject({ page: 200 });
  });
});

it("a removal fails if the store reports a page as removed and still serves it", async () => {
  const still = { url: "https://example.com/tea", etag: '"1"' };
  const liar = { fetch: async ({ method }: Request) => (method === "GET" ? Response.json(still) : new Response(null, { status: 204 })) };
  const site = { tenantId: "t", brand: "acme", name: "main", kind: "deployment" } as const;
  const page = { path: "t/acme/tea", slug: "tea", store: "embedded" };
  const removal = takeDown({ UPSTREAMS: liar as never }, site, page, { key: "k" });
  await expect(removal).rejects.toMatchObject({ code: "unavailable", message: expect.stringContaining("still published") });
});
