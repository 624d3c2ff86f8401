import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { Envelope } from "millrace";
import { afterEach, expect, it } from "vitest";
import { brandAgentOf } from "../../../src/systems/brand/brand-agents.ts";
import { callerWith, fresh, type Json, reaches, until } from "../../api/client.ts";
import { counts, cycle, decided, decisions, fail, inside, paidFor, ring, stands, verdicts } from "./brand.ts";

const DAY = 86_400_000;

afterEach(() => fail().then(() => undefined));

async function stranger() {
  return { caller: await callerWith(), brand: fresh("brand") };
}

it("a keyword without content is researched once, in any spelling; a live keyword is skipped in the next cycle", async () => {
  const { caller, brand } = await stranger();
  const word = fresh("tea");
  await decided(
    caller,
    await cycle(caller, { brand, cycle: "w1", keywords: [`${word} Pots`, ` ${word}  pots`, `${word.toUpperCase()} POTS`] }),
  );
  expect(await stands(caller, brand, { live: 1 })).toEqual({ live: 1, drafts: 0, on_their_way: 0, held: 0 });

  await decided(caller, await cycle(caller, { brand, cycle: "w2", keywords: [`${word} pots`] }));
  const [one, two, ...more] = await decisions(caller, brand);
  expect(more).toEqual([]);
  expect(one).toMatchObject({ cycle: "w1", keyword: `${word} Pots`, verdict: "requested", grounds: { drafts: 0, max_drafts: 5 } });
  expect(two).toMatchObject({ cycle: "w2", verdict: "skipped", reason: "The keyword has a published article." });
  const article = await env.DB.prepare("SELECT tenant_id, status FROM articles WHERE id = ?1").bind(two.grounds.content_id).first();
  expect(article).toEqual({ tenant_id: caller.tenantId, status: "published" });
  expect(await paidFor(word)).toEqual({ search: 1, text: 2 });
});

it("a keyword with running work, or with a draft, is skipped", async () => {
  const { caller, brand } = await stranger();
  await fail({ upstream: "pages", match: brand, status: 400, remaining: null });
  await cycle(caller, { brand, cycle: "w1", keywords: ["rye"] });
  await decided(caller, await cycle(caller, { brand, cycle: "w2", keywords: ["Rye"] }));
  await stands(caller, brand, { drafts: 1, on_their_way: 0 });
  await decided(caller, await cycle(caller, { brand, cycle: "w3", keywords: ["rye"] }));
  const [, underWay, draft] = await decisions(caller, brand);
  expect(underWay).toMatchObject({ verdict: "skipped", cycle: expect.stringMatching(/w[12]/) });
  expect(draft).toMatchObject({ verdict: "skipped", reason: "The keyword has a draft that waits for publication." });
});

it("research younger than 7 days is reused without cost; older research is not", async () => {
  const { caller, brand } = await stranger();
  const word = fresh("oats");
  await fail({ upstream: "text", match: `Keyword: ${word}`, status: 400, remaining: null });
  await decided(caller, await cycle(caller, { brand, cycle: "w1", keywords: [word] }));
  // Its article cannot be written: an audit finds that it failed permanently.
  await until(
    () => caller.get(`/v1/instances?workflow=generate-article&status=errored`),
    ({ body }) => body.items.length === 1,
  );
  await caller.post("/v1/commands", { type: "brand.audit", payload: { brand } });
  await stands(caller, brand, { on_their_way: 0 });

  await fail();
  await decided(caller, await cycle(caller, { brand, cycle: "w2", keywords: [word] }));
  await stands(caller, brand, { live: 1 });
  const [, reused] = await decisions(caller, brand);
  expect(reused).toMatchObject({ verdict: "reused", reason: expect.stringMatching(/^The keyword's research is less than an hour old/) });
  expect(await paidFor(word)).toEqual({ search: 1, text: 2 });
  const { results } = await env.DB.prepare("SELECT id FROM research WHERE tenant_id = ?1").bind(caller.tenantId).all();
  expect(results).toEqual([{ id: reused.grounds.research_id }]);

  // Simulates that the article is deleted, and a week has passed.
  await inside(caller, brand, ({ sql }) => {
    sql.exec("UPDATE articles SET state = 'unpublished'");
    sql.exec("UPDATE research SET at = at - ?", 7 * DAY);
  });
  await decided(caller, await cycle(caller, { brand, cycle: "w3", keywords: [word] }));
  await stands(caller, brand, { live: 1 });
  expect((await verdicts(caller, brand)).at(-1)).toBe(`${word} requested`);
  expect(await paidFor(word)).toEqual({ search: 2, text: 4 });
});

it("twenty keywords never exceed the brand's limit of drafts: the others are deferred, and start automatically in order", async () => {
  const { caller, brand } = await stranger();
  await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100, max_drafts: 5 });
  const keywords = Array.from({ length: 20 }, (_, index) => `k${index}`);
  await cycle(caller, { brand, cycle: "w1", keywords });
  const most: number[] = [];
  await until(
    () => counts(caller, brand),
    ({ live, drafts, on_their_way }) => {
      most.push(drafts + on_their_way);
      return live === 20;
    },
  );
  expect(await counts(caller, brand)).toEqual({ live: 20, drafts: 0, on_their_way: 0, held: 0 });
  expect(Math.max(...most)).toBe(5);
  const all = await decisions(caller, brand);
  expect(all.filter(({ verdict }) => verdict === "requested").map(({ keyword }) => keyword)).toEqual(keywords.slice(0, 5));
  expect(all.filter(({ verdict }) => verdict === "resumed").map(({ keyword }) => keyword)).toEqual(keywords.slice(5));
  const [held] = all.filter(({ verdict }) => verdict === "held");
  expect(held.reason).toBe(
    "0 drafts wait and 5 are on their way, and the brand allows 5: it is begun when one is published, rejected or given up.",
  );
  expect(new Set(all.map(({ cycle }) => cycle))).toEqual(new Set(["w1"]));
});

it("a brand's waiting drafts defer further keywords until one is published", async () => {
  const { caller, brand } = await stranger();
  await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100, max_drafts: 2 });
  await fail({ upstream: "pages", match: brand, status: 400, remaining: null });
  await cycle(caller, { brand, cycle: "w1", keywords: ["a", "b", "c"] });
  expect(await stands(caller, brand, { drafts: 2, held: 1 })).toEqual({ live: 0, drafts: 2, on_their_way: 0, held: 1 });
  const failed = await until(
    () => caller.get("/v1/instances?workflow=publish-article&status=errored"),
    ({ body }) => body.items.length === 2,
  );
  const [refused, published] = failed.body.items;
  await caller.post(`/v1/instances/${refused.id}/retry`, { reason: "still refused" });
  await until(
    () => env.DB.prepare("SELECT status FROM millrace_instances WHERE id = ?1 AND run = 2").bind(refused.id).first("status"),
    (status) => status === "errored",
  );
  expect(await counts(caller, brand)).toMatchObject({ held: 1 });

  await fail();
  await caller.post(`/v1/instances/${published.id}/retry`, { reason: "the page store works again" });
  expect(await stands(caller, brand, { held: 0, live: 2 })).toMatchObject({ live: 2, held: 0 });
  expect((await verdicts(caller, brand, "&keyword=C")).join()).toBe("c held,c resumed");
});

it("a higher limit of drafts that an operator sets for a brand is used at once", async () => {
  const { caller, brand } = await stranger();
  await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100, max_drafts: 1 });
  await fail({ upstream: "pages", match: brand, status: 400, remaining: null });
  await cycle(caller, { brand, cycle: "w1", keywords: ["a", "b", "c"] });
  await stands(caller, brand, { drafts: 1, held: 2 });
  await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100, max_drafts: 2 });
  expect(await stands(caller, brand, { drafts: 2, held: 1 })).toEqual({ live: 0, drafts: 2, on_their_way: 0, held: 1 });
});

it("a brand's failed work frees capacity without an audit: the agent polls while a keyword is deferred", async () => {
  const { caller, brand } = await stranger();
  await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100, max_drafts: 1 });
  await fail({ upstream: "search", match: "hopeless", status: 401, remaining: null });
  await cycle(caller, { brand, cycle: "w1", keywords: [`hopeless ${brand}`, `hopeful ${brand}`] });
  await until(
    () => caller.get("/v1/instances?workflow=research-keyword&status=errored"),
    ({ body }) => body.items.length === 1,
  );
  expect(await counts(caller, brand)).toMatchObject({ on_their_way: 1, held: 1 });
  // Five minutes later.
  await inside(caller, brand, ({ sql }) => sql.exec("UPDATE agent SET looked_at = looked_at - 300000").rowsWritten);
  await ring(caller, brand);
  expect(await stands(caller, brand, { live: 1, held: 0 })).toEqual({ live: 1, drafts: 0, on_their_way: 0, held: 0 });
});

it("a command that the engine refuses is a visible decision of the brand's agent, and uses no capacity", async () => {
  const { caller, brand } = await stranger();
  await caller.call("PUT", `/v1/brands/${brand}`, { max_drafts: 1 });
  // Requested with research that does not exist: the agent is not asked about it.
  const taken = { type: "research.requested", payload: { brand, keyword: `TAKEN ${brand}`, cycle: "w1", reuse: "nothing" } };
  expect((await caller.post("/v1/commands", taken)).status).toBe(202);
  await decided(caller, await cycle(caller, { brand, cycle: "w1", keywords: [`taken ${brand}`, `free ${brand}`] }));
  await stands(caller, brand, { live: 1 });
  const all = await decisions(caller, brand);
  expect(all.find(({ verdict }) => verdict === "refused")).toMatchObject({
    keyword: `taken ${brand}`,
    reason: expect.stringContaining("belongs to an earlier research.requested with another payload"),
  });
  expect(await counts(caller, brand)).toEqual({ live: 1, drafts: 0, on_their_way: 0, held: 0 });
});

it("a keyword that two concurrent requests name outside cycles is paid for once: the second caller gets the reason", async () => {
  const { caller, brand } = await stranger();
  const word = fresh("chai");
  const ask = (cycle: string, keyword = word) =>
    caller.post("/v1/commands", { type: "research.requested", payload: { brand, keyword, cycle } });
  const asked = await Promise.all([ask("one"), ask("two", word.toUpperCase())]);
  await stands(caller, brand, { live: 1, on_their_way: 0 });
  const resultOf = async ({ body }: Json) => (await reaches(caller, body.instance_id, "complete")).result;
  const results = await Promise.all(asked.map(resultOf));
  const by = Object.fromEntries(results.map((result) => [result.verdict, result]));
  expect(by.skipped).toMatchObject({ reason: expect.stringMatching(/research is running|being written|published article|draft/) });
  expect(by.requested).toMatchObject({ research_id: expect.any(String) });
  expect(await resultOf(await ask("three"))).toMatchObject({ verdict: "skipped", reason: "The keyword has a published article." });
  expect(await paidFor(word)).toEqual({ search: 1, text: 2 });
});

it("a request outside a brand's cycles reuses fresh research and free capacity, and does not wait for failed research", async () => {
  const { caller, brand } = await stranger();
  await caller.call("PUT", `/v1/brands/${brand}`, { max_drafts: 1 });
  const word = fresh("malt");
  const ask = async (cycle: string) =>
    (await caller.post("/v1/commands", { type: "research.requested", payload: { brand, keyword: word, cycle } })).body.instance_id;
  await fail({ upstream: "search", match: word, status: 401, remaining: null });
  await reaches(caller, await ask("one"), "errored");
  await fail({ upstream: "pages", match: brand, status: 400, remaining: null });
  expect((await reaches(caller, await ask("two"), "complete")).result).toMatchObject({ verdict: "requested" });
  await stands(caller, brand, { drafts: 1, on_their_way: 0 });
  await inside(caller, brand, ({ sql }) => sql.exec("UPDATE articles SET state = 'unpublished'").rowsWritten);
  expect((await reaches(caller, await ask("three"), "complete")).result).toMatchObject({ verdict: "reused" });
  await stands(caller, brand, { drafts: 1, on_their_way: 0 });
  expect(await paidFor(word)).toEqual({ search: 1, text: 3 });
});

it("a command that repeats a keyword of a brand's cycle is refused for that keyword, with the reason", async () => {
  const { caller, brand } = await stranger();
  await decided(caller, await cycle(caller, { brand, cycle: "w1", keywords: ["a"] }));
  await stands(caller, brand, { live: 1 });
  await inside(caller, brand, ({ sql }) => sql.exec("UPDATE articles SET state = 'unpublished'").rowsWritten);
  const again = { type: "brand.cycle", payload: { brand, cycle: "w1", keywords: ["A", "b"] } };
  const { body } = await caller.post("/v1/commands", again, { "idempotency-key": "another name" });
  await decided(caller, body.instance_id);
  expect(await verdicts(caller, brand)).toEqual(["a requested", "A refused", "b requested"]);
});

it("the commands of a brand's cycle are distributed over seconds, also across concurrent cycles, and each command belongs to its cycle's job", async () => {
  const { caller, brand } = await stranger();
  await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 2, max_drafts: 20 });
  const sent: { delaySeconds?: number; body: Envelope }[] = [];
  await runInDurableObject(brandAgentOf(env, caller.tenantId, brand), (instance) => {
    const own = instance as unknown as { env: object };
    own.env = {
      ...own.env,
      GATHERFEED_COMMANDS: { sendBatch: async (messages: Iterable<(typeof sent)[number]>) => void sent.push(...messages) },
    };
  });
  const planned = await Promise.all(
    ["w1", "w2"].map((name) => cycle(caller, { brand, cycle: name, keywords: ["a", "b", "c"].map((one) => `${one} ${name}`) })),
  );
  await until(
    async () => sent.length,
    (count) => count === 6,
  );
  // The delays count from the time of sending: no second has more than two commands.
  const seconds = sent.map(({ delaySeconds = 0, body }) => Math.floor(Date.parse(body.created_at) / 1000) + delaySeconds);
  for (const same of Map.groupBy(seconds, (second) => second).values()) expect(same.length).toBeLessThanOrEqual(2);
  expect(sent.slice(0, 3).map(({ delaySeconds = 0 }) => delaySeconds)).toEqual([0, 0, 1]);
  expect(new Set(sent.map(({ body }) => body.correlation_id))).toEqual(new Set([`${brand}/w1`, `${brand}/w2`]));
  expect(new Set(sent.map(({ body }) => body.causation_id.split("/")[0]))).toEqual(new Set(planned));
});
