import { env } from "cloudflare:workers";
import { keeperOf } from "millrace/worker";
import { describe, expect, it, onTestFinished } from "vitest";
import { pagePath } from "../../../src/systems/content/articles.ts";
import { type Caller, callerWith, expectProblem, fresh, type Json, reaches, send, until } from "../../api/client.ts";
import { ledger } from "../../providers/embedded.ts";
import { askToPublish, becomes, draft, noApproval, publish, wantsApproval } from "./article.ts";

/** A draft of a brand with approval, once the question exists. */
async function asked(caller: Caller) {
  await wantsApproval(caller, "careful");
  const article = await draft(caller, {
    brand: "careful",
    keyword: "green tea",
    text: "# Green tea\n\nIt is a **plant**.\n\nAnd a drink.",
  });
  const instance = await askToPublish(caller, article);
  const { body } = await until(
    () => caller.get(`/v1/articles/${article.id}`),
    ({ body }) => body.approval_id !== null,
  );
  expect(body.approval_id).toEqual(expect.any(String));
  return { article, instance, approval: `/v1/approvals/${body.approval_id}`, shown: body };
}

/** A draft of a brand with approval, once a second question about it is asked. */
async function askedTwice(caller: Caller) {
  const { article, instance, approval } = await asked(caller);
  const again = { type: "content.publish", payload: { content_id: article.id, brand: "careful" } };
  const { body } = await caller.post("/v1/commands", again, { "idempotency-key": fresh("again") });
  expect(body.instance_id).not.toBe(instance);
  await reaches(caller, body.instance_id, "waiting");
  const { items } = (await caller.get("/v1/approvals?state=pending")).body;
  const other = items.find(({ instance_id }: Json) => instance_id === body.instance_id);
  return { article, instance, approval, again: body.instance_id, other: `/v1/approvals/${other.id}` };
}

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
    // Polls, because a promise must not cross from one request into another.
    while (path.includes(slug) && !isReleased) await scheduler.wait(10);
    return stored;
  };
  return { isHeld: () => isHeld, release: () => (isReleased = true) };
}

async function emitted(caller: Caller, instance: string): Promise<Json[]> {
  const { body } = await caller.get(`/v1/instances/${instance}/events?payload=true`);
  return body.items.map(({ message_type, payload_inline }: Json) => ({ type: message_type, payload: payload_inline }));
}

const putUp = async (path: string) => (await ledger({ upstream: "pages", match: path })).calls.map(({ outcome }) => outcome);

describe("An article of a brand with approval", () => {
  it("an article that needs approval waits as a draft, and its question describes it", async () => {
    const caller = await callerWith();
    const { article, instance, approval, shown } = await asked(caller);
    expect(shown).toMatchObject({ status: "draft", revision: 1, url: null, instances: { publish: { id: instance, status: "waiting" } } });
    expect((await caller.get(approval)).body).toMatchObject({
      question: "Publish “Green tea” on careful?",
      details: { content_id: article.id, title: "Green tea", keyword: "green tea", excerpt: "It is a plant.", words: 7 },
      state: "pending",
      otherwise: "reject",
      instance_id: instance,
    });
    expect(await putUp(article.slug)).toEqual([]);
  });

  it("an article that needs approval is published once after an approval", async () => {
    const caller = await callerWith();
    const { article, instance, approval } = await asked(caller);
    expect((await caller.post(`${approval}/approve`, { reason: "Well said." })).status).toBe(202);
    const published = await becomes(caller, article, "published");
    expect(published).toMatchObject({ revision: 2, approval_id: null, instances: { publish: { status: "complete" } } });
    expect((await send(new URL(published.url).pathname)).status).toBe(200);
    const of = { content_id: article.id, brand: "careful", keyword: "green tea" };
    expect(await emitted(caller, instance)).toEqual([
      {
        type: "content.published",
        payload: { ...of, revision: 2, site: "main", platform: "store", url: published.url, again: false },
      },
    ]);
    expect(await putUp(article.slug)).toEqual(["created"]);
  });

  it("an article that needs approval is rejected after a rejection: no page, no announcement, and no later publication", async () => {
    const caller = await callerWith();
    const { article, instance, approval } = await asked(caller);
    expect((await caller.post(`${approval}/reject`, { reason: "Tea again?" })).status).toBe(202);
    expect(await becomes(caller, article, "rejected")).toMatchObject({
      revision: 2,
      url: null,
      approval_id: null,
      instances: { social: null },
    });
    await reaches(caller, instance, "complete");
    expect(await emitted(caller, instance)).toEqual([
      { type: "content.rejected", payload: { content_id: article.id, brand: "careful", keyword: "green tea", revision: 2 } },
    ]);
    expect(await putUp(article.slug)).toEqual([]);
    expectProblem(await caller.post(`/v1/articles/${article.id}/publish`, { reason: "After all." }), 409, "invalid_transition");
    expect((await caller.get(`/v1/articles/${article.id}`)).body.status).toBe("rejected");
  });

  it.each([
    ["reject", "rejected", []],
    ["approve", "published", ["created"]],
  ] as const)(
    "an article that needs approval follows the brand's default when the question times out: %s",
    async (otherwise, status, calls) => {
      const caller = await callerWith();
      await wantsApproval(caller, "hasty", "1 second", otherwise);
      const article = await draft(caller, { brand: "hasty" });
      await askToPublish(caller, article);
      await becomes(caller, article, status);
      expect(await putUp(article.slug)).toEqual(calls);
      const { items } = (await caller.get("/v1/approvals")).body;
      expect(items).toMatchObject([{ state: status === "published" ? "approved" : "rejected", decided_by: null }]);
    },
  );

  it.each([
    ["approve", "reject", "published", "complete"],
    ["reject", "approve", "rejected", "errored"],
  ] as const)(
    "an article with two questions follows the first answer: after %s, a later %s changes nothing",
    async (first, second, status, end) => {
      const caller = await callerWith();
      const { article, approval, again, other } = await askedTwice(caller);

      expect((await caller.post(`${approval}/${first}`, { reason: "First." })).status).toBe(202);
      const settled = await becomes(caller, article, status);
      expect((await caller.post(`${other}/${second}`, { reason: "Second." })).status).toBe(202);
      await reaches(caller, again, end);
      const { status: left, revision, url } = (await caller.get(`/v1/articles/${article.id}`)).body;
      expect({ status: left, revision, url }).toEqual({ status, revision: settled.revision, url: settled.url });
      expect(await putUp(article.slug)).toEqual(status === "published" ? ["created"] : []);
      expect(await emitted(caller, again)).toEqual([]);
    },
  );

  it("an article with two questions that was approved and then removed is not rejected by the other question", async () => {
    const caller = await callerWith();
    const { article, approval, again, other } = await askedTwice(caller);
    await caller.post(`${approval}/approve`, { reason: "Good." });
    await becomes(caller, article, "published");
    expect((await caller.post(`/v1/articles/${article.id}/unpublish`, { reason: "Not now." })).status).toBe(202);
    await becomes(caller, article, "unpublished");
    await caller.post(`${other}/reject`, { reason: "Late." });
    await reaches(caller, again, "complete");
    expect((await caller.get(`/v1/articles/${article.id}`)).body.status).toBe("unpublished");
  });

  it("an article with two questions is rejected while its page is being published: the page is removed, and only the rejection is reported", async () => {
    const caller = await callerWith();
    const { article, instance, approval, again, other } = await askedTwice(caller);
    const { isHeld, release } = holdPut(article.slug);
    await caller.post(`${approval}/approve`, { reason: "Good." });
    await until(async () => isHeld(), Boolean);
    await caller.post(`${other}/reject`, { reason: "Tea again?" });
    await reaches(caller, again, "complete");
    release();
    const { error } = await reaches(caller, instance, "errored");
    expect(error).toMatchObject({ code: "not_retryable", message: expect.stringContaining("was rejected, which is final") });
    const left = (await caller.get(`/v1/articles/${article.id}`)).body;
    expect(left).toMatchObject({ status: "rejected", revision: 2, url: null, published_at: null });
    expect(await emitted(caller, instance)).toEqual([]);
    expect(await emitted(caller, again)).toMatchObject([{ type: "content.rejected" }]);
    expect(await putUp(article.slug)).toEqual(["created", "removed"]);
    expect((await send(`/pages/${pagePath(article)}`)).status).toBe(404);
  });

  it.each([
    ["approve", "reject"],
    ["reject", "approve"],
  ])(
    "an article with two questions that get the answers %s and %s concurrently has one outcome, and reports it once",
    async (first, second) => {
      const caller = await callerWith();
      const { article, instance, approval, again, other } = await askedTwice(caller);
      await Promise.all([
        caller.post(`${approval}/${first}`, { reason: "First." }),
        caller.post(`${other}/${second}`, { reason: "Second." }),
      ]);
      for (const id of [instance, again]) {
        await until(
          () => caller.get(`/v1/instances/${id}`),
          ({ body }) => ["complete", "errored"].includes(body.status),
        );
      }
      const { status } = (await caller.get(`/v1/articles/${article.id}`)).body;
      expect(["published", "rejected"]).toContain(status);
      const told = [...(await emitted(caller, instance)), ...(await emitted(caller, again))];
      expect(told.map(({ type }) => type)).toEqual([`content.${status}`]);
      expect((await send(`/pages/${pagePath(article)}`)).status).toBe(status === "published" ? 200 : 404);
    },
  );

  it("an article still waits for approval when the brand changes its setting", async () => {
    const caller = await callerWith();
    const { article, instance, approval } = await asked(caller);
    await noApproval(caller, "careful");
    expect((await publish(caller, await draft(caller, { brand: "careful" }))).status).toBe("published");
    expect((await caller.get(`/v1/instances/${instance}`)).body.status).toBe("waiting");
    await caller.post(`${approval}/approve`, { reason: "Good." });
    await becomes(caller, article, "published");
  });
});

it("an article of a brand without approval is published without a question", async () => {
  const caller = await callerWith();
  expect(await publish(caller, await draft(caller))).toMatchObject({ status: "published", revision: 2, approval_id: null });
  expect((await caller.get("/v1/approvals")).body.items).toEqual([]);
});

it("an article's question is checked once an hour while it waits for days, and at once when it is answered", async () => {
  const caller = await callerWith();
  const { article, instance, approval } = await asked(caller);
  const nextLook = async () => {
    const select = env.DB.prepare("SELECT check_at - unixepoch() * 1000 AS ms FROM millrace_instances WHERE id = ?1").bind(instance);
    return (await select.first<{ ms: number }>())?.ms ?? 0;
  };
  const since = Date.now() - 3 * 86_400_000;
  await env.DB.prepare("UPDATE millrace_instances SET accepted_at = ?2, check_at = 0 WHERE id = ?1").bind(instance, since).run();
  await keeperOf(env).round();
  expect(await nextLook()).toBeGreaterThan(3_000_000);
  await caller.post(`${approval}/approve`, { reason: "Well said." });
  expect(await nextLook()).toBeLessThan(60_000);
  await becomes(caller, article, "published");
});

it("an article cannot be published without approval by a command for another brand", async () => {
  const caller = await callerWith();
  await wantsApproval(caller, "careful");
  await wantsApproval(caller, "careful-too");
  const article = await draft(caller, { brand: "careful" });
  for (const brand of ["careless", "careful-too"]) {
    const command = { type: "content.publish", payload: { content_id: article.id, brand } };
    const { body } = await caller.post("/v1/commands", command, { "idempotency-key": `round ${brand}` });
    const { error } = await reaches(caller, body.instance_id, "errored");
    expect(error).toMatchObject({ code: "not_retryable", message: expect.stringContaining(`is one of careful, not of ${brand}`) });
  }
  expect((await caller.get(`/v1/articles/${article.id}`)).body).toMatchObject({ status: "draft", revision: 1 });
  expect((await caller.get("/v1/approvals")).body.items).toEqual([]);
  expect(await putUp(article.slug)).toEqual([]);
});
