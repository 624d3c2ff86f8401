import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { type Draft, type Envelope, traces } from "millrace";
import { outbox } from "millrace/worker";
import { expect, it } from "vitest";
import { ContentGenerated, ContentPublished, ContentRejected, ContentUnpublished } from "../../../src/messages/content.ts";
import { ResearchCompleted } from "../../../src/messages/research.ts";
import { brandAgentOf } from "../../../src/systems/brand/brand-agents.ts";
import { callerWith, expectProblem, fresh, type Json, until } from "../../api/client.ts";
import { chances, shuffled } from "../facts/derived.ts";
import { counts, cycle, decided, heal, inside, paidFor, ring, stands, verdicts } from "./brand.ts";

/** An event in the form in which the step of an instance emits it. */
function emitted(tenantId: string, cause: string, draft: Draft): Promise<Envelope> {
  return outbox.address(env.PAYLOADS, draft, {
    tenantId,
    source: "workflow:test",
    correlationId: "job",
    causationId: `${cause}/step`,
    traceparent: traces.begin(),
    owner: fresh(`${cause}.`),
  });
}

/** All possible events of a brand's articles, in order of time. */
function story(tenantId: string, brand: string): Promise<Envelope[]> {
  const article = (content_id: string, keyword: string, revision: number) => ({ content_id, brand, keyword, revision });
  const url = "https://acme.example.com/";
  const happened: [string, Draft][] = [
    ["r1", ResearchCompleted.from({ research_id: "r1", brand, keyword: "one" })],
    ["r2", ResearchCompleted.from({ research_id: "r2", brand, keyword: "two" })],
    // Reuse does not make the research younger.
    ["r3", ResearchCompleted.from({ research_id: "r1", brand, keyword: "One" })],
    ["a1", ContentGenerated.from(article("a1", "one", 1))],
    ["a2", ContentGenerated.from(article("a2", "two", 1))],
    ["a3", ContentGenerated.from(article("a3", "three", 1))],
    ["a4", ContentGenerated.from(article("a4", "four", 1))],
    ["a5", ContentGenerated.from(article("a5", "five", 1))],
    ["p1", ContentPublished.from({ ...article("a1", "one", 2), platform: "store", url })],
    ["p2", ContentPublished.from({ ...article("a2", "two", 2), platform: "store", url })],
    ["u2", ContentUnpublished.from(article("a2", "two", 3))],
    ["p2", ContentPublished.from({ ...article("a2", "two", 4), platform: "store", url })],
    ["p3", ContentPublished.from({ ...article("a3", "three", 2), platform: "store", url })],
    ["u3", ContentUnpublished.from(article("a3", "three", 3))],
    ["x4", ContentRejected.from(article("a4", "four", 2))],
    // An article on two sites with one page left; and one on two sites with no page left.
    ["a6", ContentGenerated.from(article("a6", "six", 1))],
    ["p6", ContentPublished.from({ ...article("a6", "six", 2), platform: "store", url })],
    ["q6", ContentPublished.from({ ...article("a6", "six", 2), site: "shop", platform: "store", url })],
    ["u6", ContentUnpublished.from(article("a6", "six", 3))],
    ["a7", ContentGenerated.from(article("a7", "seven", 1))],
    ["p7", ContentPublished.from({ ...article("a7", "seven", 2), platform: "store", url })],
    ["q7", ContentPublished.from({ ...article("a7", "seven", 3), site: "shop", platform: "store", url })],
    ["u7", ContentUnpublished.from(article("a7", "seven", 4))],
    ["v7", ContentUnpublished.from({ ...article("a7", "seven", 4), site: "shop" })],
  ];
  return Promise.all(happened.map(([cause, draft]) => emitted(tenantId, cause, draft)));
}

it("a brand's agent reaches the same state for events in any order, each delivered twice", async () => {
  const caller = await callerWith();
  const told = await story(caller.tenantId, "acme");
  const seen = async (name: string, events: readonly Envelope[]) => {
    // The same events under another name: an agent for each order.
    const agent = brandAgentOf(env, caller.tenantId, name);
    // Calls of one stub arrive in their order.
    await Promise.all(events.map((event) => agent.onEvent(event)));
    return runInDurableObject(agent, (_, { storage: { sql } }) => ({
      articles: sql.exec("SELECT content_id, keyword, revision, state FROM articles ORDER BY content_id").toArray(),
      research: sql.exec("SELECT * FROM research ORDER BY research_id").toArray(),
      keywords: sql.exec("SELECT keyword FROM keywords ORDER BY keyword").toArray(),
    }));
  };
  const expected = await seen(fresh("order"), told);
  expect(expected.articles.map(({ content_id, state }) => `${content_id} ${state}`).filter((one) => /^a\d /.test(one))).toEqual([
    "a1 live",
    "a2 live",
    "a3 unpublished",
    "a4 rejected",
    "a5 draft",
    "a6 live",
    "a7 unpublished",
  ]);
  expect(expected.research.map(({ research_id, keyword }) => `${research_id} ${keyword}`)).toEqual(["r1 one", "r2 two"]);
  for (let seed = 1; seed <= 50; seed++) {
    expect(await seen(fresh("order"), shuffled([...told, ...told], chances(seed))), `seed ${seed}`).toEqual(expected);
  }
});

it("events of a brand before its first cycle are recorded, so that a live article is skipped for any caller", async () => {
  const caller = await callerWith();
  const brand = fresh("brand");
  await caller.post("/v1/commands", { type: "research.requested", payload: { brand, keyword: "Early" } });
  await stands(caller, brand, { live: 1 });
  await decided(caller, await cycle(caller, { brand, cycle: "w1", keywords: ["early"] }));
  expect(await verdicts(caller, brand)).toEqual(["Early requested", "early skipped"]);
});

it("a new agent of an existing brand reads the existing content first", async () => {
  const caller = await callerWith();
  const brand = fresh("brand");
  await env.DB.prepare(
    `INSERT INTO articles (id, tenant_id, brand, keyword, slug, title, body, model, input_tokens, output_tokens, status, revision, created_at)
     VALUES (?1, ?2, ?3, 'Old', 's', 't', 'b', 'm', 1, 1, 'published', 2, 0)`,
  )
    .bind(fresh("article"), caller.tenantId, brand)
    .run();
  await decided(caller, await cycle(caller, { brand, cycle: "w1", keywords: ["old"] }));
  expect(await verdicts(caller, brand)).toEqual(["old skipped"]);
  expect(await counts(caller, brand)).toMatchObject({ live: 1 });
});

it("a query of a brand's agent stores nothing", async () => {
  const caller = await callerWith();
  const brand = fresh("brand");
  for (const path of ["", "/decisions", "/keywords"]) expectProblem(await caller.get(`/v1/brands/${brand}${path}`), 404, "brand_not_found");
  await caller.call("PUT", `/v1/brands/${brand}`, {});
  expect((await caller.get(`/v1/brands/${brand}/decisions`)).body).toEqual({ items: [], next_cursor: null });
  expect(await inside(caller, brand, ({ sql }) => sql.exec("SELECT name FROM sqlite_master WHERE name = 'agent'").toArray())).toEqual([]);
});

/** Makes the agent's database fail at its next write: before or after the write. */
async function breakDatabase(tenantId: string, brand: string, when: "before" | "after"): Promise<{ died: () => number }> {
  let died = 0;
  await runInDurableObject(brandAgentOf(env, tenantId, brand), (instance) => {
    const own = instance as unknown as { env: Env };
    const DB = new Proxy(own.env.DB, {
      get(db, name) {
        if (name !== "batch") return Reflect.get(db, name).bind(db);
        return async (statements: D1PreparedStatement[]) => {
          const writes = statements.length > 1;
          if (!writes) return db.batch(statements);
          if (when === "after") await db.batch(statements);
          died++;
          throw new Error("It died.");
        };
      },
    });
    own.env = { ...own.env, DB };
  });
  return { died: () => died };
}

it.each(["before", "after"] as const)("a crash %s the engine has accepted the decision loses nothing and repeats nothing", async (when) => {
  const caller = await callerWith();
  const [brand, word] = [fresh("brand"), fresh("word")];
  await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100 });
  await decided(caller, await cycle(caller, { brand, cycle: "w0", keywords: ["first"] }));
  await stands(caller, brand, { live: 1 });
  const { died } = await breakDatabase(caller.tenantId, brand, when);
  await decided(caller, await cycle(caller, { brand, cycle: "w1", keywords: [`${word} a`, `${word} b`] }));
  await until(
    async () => died(),
    (times) => times > 0,
  );
  const states = () =>
    inside(caller, brand, ({ sql }) => [...sql.exec<{ state: string }>("SELECT state FROM requests")].map(({ state }) => state));
  if (when === "before") expect(await states()).toEqual(["done", "to_send", "to_send"]);

  await evictDurableObject(brandAgentOf(env, caller.tenantId, brand));
  await ring(caller, brand);
  await heal(caller.tenantId);
  expect(await stands(caller, brand, { live: 3 })).toEqual({ live: 3, drafts: 0, on_their_way: 0, held: 0 });
  expect(await paidFor(word)).toEqual({ search: 2, text: 4 });
  expect(await states()).toEqual(["done", "done", "done"]);
});

it("a brand's cycle that repeats its planning gets the same decisions", async () => {
  const caller = await callerWith();
  const brand = fresh("brand");
  const id = await cycle(caller, { brand, cycle: "w1", keywords: ["a", "b"] });
  await decided(caller, id);
  const agent = brandAgentOf(env, caller.tenantId, brand);
  const asked = {
    instance_id: id,
    tenant_id: caller.tenantId,
    brand,
    cycle: "w1",
    keywords: ["a", "b"],
    priority: "normal" as const,
    correlation_id: "j",
    traceparent: traces.begin(),
  };
  const answers = [await agent.plan(asked), await agent.plan({ ...asked, keywords: ["c"] })] as Json[];
  expect(answers[0]).toMatchObject([{ verdict: "requested" }, { verdict: "requested" }]);
  expect(answers[1]).toEqual(answers[0]);
  expect(await verdicts(caller, brand)).toHaveLength(2);
});
