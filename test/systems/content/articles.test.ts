import { describe, expect, it } from "vitest";
import { callerWith, expectProblem, fresh, type Json } from "../../api/client.ts";
import { draft, publish, wantsApproval } from "./article.ts";

const REASON = { reason: "because" };

describe("GET /v1/articles", () => {
  it("GET /v1/articles lists a tenant's articles, newest first, by brand and status, page by page", async () => {
    const caller = await callerWith();
    const [first, second, third] = [await draft(caller), await draft(caller), await draft(caller, { brand: "other" })];
    await publish(caller, second);
    const ids = async (query: string) => (await caller.get(`/v1/articles${query}`)).body.items.map(({ id }: Json) => id);
    expect(new Set(await ids(""))).toEqual(new Set([first.id, second.id, third.id]));
    expect(await ids("?brand=other")).toEqual([third.id]);
    expect(await ids("?status=published")).toEqual([second.id]);
    expect(await ids("?brand=other&status=published")).toEqual([]);

    const seen: Json[] = [];
    let cursor = "";
    for (let pages = 0; pages < 3; pages++) {
      const { body } = await caller.get(`/v1/articles?limit=1${cursor && `&cursor=${cursor}`}`);
      seen.push(...body.items);
      cursor = body.next_cursor;
    }
    expect(cursor).toBeNull();
    expect(seen.map(({ id }) => id)).toEqual(await ids(""));
    expect(seen.map(({ created_at }) => created_at)).toEqual(
      seen
        .map(({ created_at }) => created_at)
        .sort()
        .reverse(),
    );
  });

  it("GET /v1/articles refuses an unknown status and an invalid cursor", async () => {
    const caller = await callerWith();
    for (const query of ["status=live", "cursor=x", "brands=acme"])
      expectProblem(await caller.get(`/v1/articles?${query}`), 422, "invalid_payload");
  });
});

describe("GET /v1/articles/{id}", () => {
  it("GET /v1/articles/{id} shows the text, its cost, its place and its current work", async () => {
    const caller = await callerWith();
    const article = await draft(caller, { text: "# Green tea\n\nIt is a **plant**." });
    const before = (await caller.get(`/v1/articles/${article.id}`)).body;
    expect(before).toMatchObject({
      id: article.id,
      brand: "acme",
      keyword: "green tea",
      title: "Green tea",
      body: "It is a **plant**.",
      status: "draft",
      revision: 1,
      url: null,
      published_at: null,
      model: "test",
      input_tokens: 12,
      output_tokens: 34,
      approval_id: null,
      instances: { generate: null, publish: null, social: null },
    });
    const after = await publish(caller, article);
    expect(after).toMatchObject({ status: "published", revision: 2, url: expect.stringContaining(article.slug) });
    expect(Date.parse(after.published_at)).toBeGreaterThanOrEqual(Date.parse(after.created_at));
  });

  it("GET /v1/articles/{id} has the instance that wrote the article", async () => {
    const caller = await callerWith();
    await caller.post("/v1/commands", { type: "research.requested", payload: { brand: "acme", keyword: fresh("tea") } });
    await expect
      .poll(async () => (await caller.get("/v1/articles")).body.items[0]?.post_uri, { timeout: 15_000 })
      .toEqual(expect.any(String));
    const [{ id }] = (await caller.get("/v1/articles")).body.items;
    const { instances } = (await caller.get(`/v1/articles/${id}`)).body;
    expect(instances.generate.id).toBe(id);
    for (const [name, workflow] of [
      ["generate", "generate-article"],
      ["publish", "publish-article"],
      ["social", "post-to-social"],
    ]) {
      expect((await caller.get(`/v1/instances/${instances[name as string].id}`)).body).toMatchObject({ workflow });
    }
  });
});

describe("Another tenant's article", () => {
  it("another tenant's article is not found, is not listed, and cannot be published or removed", async () => {
    const [owner, stranger] = [await callerWith(), await callerWith()];
    const article = await publish(owner, await draft(owner));
    for (const id of [article.id, "f".repeat(32)]) {
      expectProblem(await stranger.get(`/v1/articles/${id}`), 404, "article_not_found");
      for (const verb of ["publish", "unpublish"])
        expectProblem(await stranger.post(`/v1/articles/${id}/${verb}`, REASON), 404, "article_not_found");
    }
    expect((await stranger.get("/v1/articles")).body.items).toEqual([]);
    expect((await stranger.get("/v1/articles?brand=acme&status=published")).body.items).toEqual([]);
    const { status, revision, url } = article;
    expect((await owner.get(`/v1/articles/${article.id}`)).body).toMatchObject({ status, revision, url });
  });

  it("another tenant's article shows no question while its approval waits", async () => {
    const [owner, stranger] = [await callerWith(), await callerWith()];
    await wantsApproval(owner, "careful");
    const { id, brand } = await draft(owner, { brand: "careful" });
    await stranger.post("/v1/commands", { type: "content.publish", payload: { content_id: id, brand } });
    expect((await owner.get(`/v1/articles/${id}`)).body).toMatchObject({ status: "draft", approval_id: null });
    expect((await stranger.get("/v1/approvals")).body.items).toEqual([]);
  });
});

describe("A manual publication or removal", () => {
  it("a manual publication or removal is refused if there is nothing to do, with the current status", async () => {
    const caller = await callerWith();
    const article = await draft(caller);
    expectProblem(await caller.post(`/v1/articles/${article.id}/publish`, REASON), 404, "instance_not_found");
    expect(expectProblem(await caller.post(`/v1/articles/${article.id}/unpublish`, REASON), 409, "invalid_transition").from).toBe("draft");
    await publish(caller, article);
    expectProblem(await caller.post(`/v1/articles/${article.id}/publish`, REASON), 409, "invalid_transition");
    expectProblem(await caller.post(`/v1/articles/${article.id}/unpublish`, {}), 422, "invalid_payload");
  });
});
