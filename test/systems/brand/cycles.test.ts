import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { type Draft, type Envelope, ids, traces } from "millrace";
import { outbox } from "millrace/worker";
import { afterEach, describe, expect, it } from "vitest";
import { statedId } from "../../../packages/millrace/src/intake/accept/stated.ts";
import { BrandCycleEnded } from "../../../src/messages/brand.ts";
import { ContentGenerated, ContentPublished, ContentRejected, ContentUnpublished } from "../../../src/messages/content.ts";
import { ResearchCompleted } from "../../../src/messages/research.ts";
import { brandAgentOf } from "../../../src/systems/brand/brand-agents.ts";
import { CycleBook, type CycleEntry } from "../../../src/systems/brand/cycles.ts";
import { foldEvent } from "../../../src/systems/brand/fold.ts";
import { BRAND_CHANGES, BRAND_SCHEMA } from "../../../src/systems/brand/schema.ts";
import { BrandState } from "../../../src/systems/brand/state.ts";
import { type Caller, callerWith, expectProblem, fresh, type Json, reaches, until } from "../../api/client.ts";
import { becomes, wantsApproval } from "../content/article.ts";
import { standsAt, withTargets } from "../content/targets.ts";
import { chances, shuffled } from "../facts/derived.ts";
import { cycle, decided, fail, inside, ring, stands } from "./brand.ts";

afterEach(() => fail().then(() => undefined));

const NONE = { published: 0, rejected: 0, failed: 0, skipped: 0 };

async function stranger() {
  const [caller, brand] = [await callerWith(), fresh("brand")];
  await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100 });
  return { caller, brand };
}

const shown = async (caller: Caller, brand: string, name = "w1"): Promise<Json> =>
  (await caller.get(`/v1/brands/${brand}/cycles/${name}`)).body;

/** The cycle, once it is done. */
async function done(caller: Caller, brand: string, name = "w1"): Promise<Json> {
  const cycle = await until(
    () => shown(caller, brand, name),
    ({ state }) => state === "done",
  );
  expect(cycle).toMatchObject({ state: "done" });
  return cycle;
}

/** The number of sent cycle ends of a brand with one cycle name, by the engine's record of their keys. */
async function ends({ tenantId }: Caller, brand: string, name = "w1"): Promise<number> {
  const ids = [1, 2, 3].map((round) => statedId(tenantId, BrandCycleEnded.type, `${brand}/${name}/${round}`));
  const row = await env.DB.prepare(
    "SELECT count(*) AS count FROM millrace_stated_events WHERE lower(hex(id)) IN (SELECT value FROM json_each(?1))",
  )
    .bind(JSON.stringify(ids))
    .first<{ count: number }>();
  return row?.count ?? 0;
}

/** The agent checks its work, as it does every five minutes. */
async function look(caller: Caller, brand: string): Promise<void> {
  await inside(caller, brand, async (storage) => {
    storage.sql.exec("UPDATE agent SET looked_at = 0");
    await storage.setAlarm(Date.now() + 60_000);
  });
  await ring(caller, brand);
}

/** The first instance of a workflow with this status. */
async function instance(caller: Caller, workflow: string, status: string): Promise<Json> {
  const { body } = await until(
    () => caller.get(`/v1/instances?workflow=${workflow}&status=${status}`),
    ({ body }) => body.items.length === 1,
  );
  expect(body.items).toHaveLength(1);
  return body.items[0];
}

describe("The end of a brand's cycle in any order of its events", () => {
  const KEYWORDS = ["live", "removed", "rejected", "again"];
  const ENTRIES: CycleEntry[] = [
    ...KEYWORDS.map((keyword) => ({ keyword, verdict: "requested" as const, request: `request-${keyword}` })),
    { keyword: "old", verdict: "skipped", request: null },
    { keyword: "taken", verdict: "refused", request: null },
  ];

  async function story(tenantId: string): Promise<Envelope[]> {
    const change = (keyword: string, revision: number) => ({ content_id: contentId(tenantId, keyword), brand: "acme", keyword, revision });
    const generated = (keyword: string) => ContentGenerated.from(change(keyword, 1));
    const published = (keyword: string, revision: number) =>
      ContentPublished.from({ ...change(keyword, revision), platform: "store", url: "https://acme.example.com/" });
    const happened: [string, Draft][] = [
      ...KEYWORDS.map((keyword): [string, Draft] => [
        `request-${keyword}`,
        ResearchCompleted.from({ research_id: `request-${keyword}`, brand: "acme", keyword }),
      ]),
      ...KEYWORDS.map((keyword): [string, Draft] => [`w-${keyword}`, generated(keyword)]),
      ["p1", published("live", 2)],
      ["p2", published("removed", 2)],
      ["u2", ContentUnpublished.from(change("removed", 3))],
      ["x", ContentRejected.from(change("rejected", 2))],
      ["p3", published("again", 2)],
      ["u3", ContentUnpublished.from(change("again", 3))],
      ["p3", published("again", 4)],
    ];
    return Promise.all(
      happened.map(([cause, draft]) =>
        outbox.address(env.PAYLOADS, draft, {
          tenantId,
          source: "workflow:test",
          correlationId: "job",
          causationId: `${cause}/step`,
          traceparent: traces.begin(),
          owner: `${cause} ${draft.type} ${draft.subject}`,
        }),
      ),
    );
  }

  const WRITER = "generate-article";
  const contentId = (tenantId: string, keyword: string) => ids.instance(tenantId, WRITER, keys.get(keyword) ?? "");
  const keys = new Map<string, string>();

  /** True once the events so far decide the keyword: its article is known, and its newest revision is an outcome. */
  function isDecided(seen: readonly Envelope[], keyword: string): boolean {
    const of = seen.filter(({ payload_inline }) => (payload_inline as Json).keyword === keyword);
    const newest = of.reduce((most, { payload_inline }) => Math.max(most, (payload_inline as Json).revision ?? 0), 0);
    return of.some(({ message_type }) => message_type === ResearchCompleted.type) && newest > 1;
  }

  it("the end of a brand's cycle is sent once, with the same counts, exactly when the last keyword has an outcome: 200 orders, each event twice", async () => {
    const caller = await callerWith();
    // An article has the id of the instance that the research event starts, so the events' keys come first.
    for (const { idempotency_key, message_type, payload_inline } of await story(caller.tenantId)) {
      if (message_type === ResearchCompleted.type) keys.set((payload_inline as Json).keyword, idempotency_key);
    }
    const told = await story(caller.tenantId);
    for (let seed = 1; seed <= 200; seed++) {
      await runInDurableObject(brandAgentOf(env, caller.tenantId, fresh("order")), (_, { storage: { sql } }) => {
        sql.exec(BRAND_SCHEMA);
        for (const change of BRAND_CHANGES) sql.exec(change);
        const [state, book] = [new BrandState(sql), new CycleBook(sql)];
        const job = { correlation_id: "job", traceparent: traces.begin(), tracestate: undefined, priority: "normal" as const };
        const asked = { ...job, instance_id: "plan", tenant_id: caller.tenantId, brand: "acme", cycle: "w1", keywords: KEYWORDS };
        for (const keyword of KEYWORDS) {
          const request = { instance_id: `request-${keyword}`, spelled: keyword, cycle: "w1", reuse: null, causation_id: "plan/decide" };
          state.ask({ ...job, ...request, tracestate: null }, "sent", 1);
        }
        book.plan(asked, ENTRIES, 1);
        const seen: Envelope[] = [];
        for (const [index, event] of shuffled([...told, ...told], chances(seed)).entries()) {
          foldEvent(state, event, WRITER);
          seen.push(event);
          book.end(index);
          const isOver = KEYWORDS.every((keyword) => isDecided(seen, keyword));
          expect(book.find("w1")?.ended_at !== null, `seed ${seed}, event ${index}`).toBe(isOver);
        }
        const ended = { cycle: "w1", round: 1, published: 3, rejected: 1, failed: 1, skipped: 1 };
        expect(book.untold(), `seed ${seed}`).toEqual([expect.objectContaining(ended)]);
        book.told(ended);
        expect(book.isDue()).toBe(false);
        expect(state.totals()).toEqual({ pending_research: 0, generated: 4, published: 3 });
      });
    }
  });
});

describe("A cycle", () => {
  it("a brand's cycle whose keywords are all skipped is done at once; a cycle with an article is done when that is published", async () => {
    const { caller, brand } = await stranger();
    await cycle(caller, { brand, cycle: "w1", keywords: ["a"] });
    const first = await done(caller, brand);
    expect(first).toMatchObject({ round: 1, counts: { ...NONE, running: 0, published: 1 }, told: { ...NONE, published: 1 } });
    expect(first.keywords).toMatchObject([
      { keyword: "a", state: "published", verdict: "requested", content_id: expect.stringMatching(/^[0-9a-f]{32}$/) },
    ]);
    await cycle(caller, { brand, cycle: "w2", keywords: ["A"] });
    expect(await done(caller, brand, "w2")).toMatchObject({ told: { ...NONE, skipped: 1 }, keywords: [{ state: "skipped" }] });
    expect([await ends(caller, brand), await ends(caller, brand, "w2")]).toEqual([1, 1]);
    expect((await caller.get(`/v1/brands/${brand}`)).body).toMatchObject({
      totals: { pending_research: 0, generated: 1, published: 1 },
      last_cycle: { cycle: "w2", state: "done", ended_at: expect.any(String) },
    });
    const { items } = (await caller.get(`/v1/brands/${brand}/cycles`)).body;
    expect(items.map((one: Json) => `${one.cycle} ${one.state}`)).toEqual(["w2 done", "w1 done"]);
    expectProblem(await caller.get(`/v1/brands/${brand}/cycles/w3`), 404, "cycle_not_found");
    const other = await callerWith();
    expectProblem(await other.get(`/v1/brands/${brand}/cycles/w1`), 404, "brand_not_found");
  });

  it("a brand's cycle that gets more keywords after its end continues in a second round, and its end is sent again", async () => {
    const { caller, brand } = await stranger();
    await cycle(caller, { brand, cycle: "w1", keywords: ["a"] });
    await done(caller, brand);
    const more = { type: "brand.cycle", payload: { brand, cycle: "w1", keywords: ["a", "b"] }, correlation_id: `${brand}/w1` };
    const { body } = await caller.post("/v1/commands", more, { "idempotency-key": "more" });
    await decided(caller, body.instance_id);
    expect(await done(caller, brand)).toMatchObject({ round: 2, told: { ...NONE, published: 2 } });
    expect(await ends(caller, brand)).toBe(2);
    const same = await caller.post("/v1/commands", more, { "idempotency-key": "the same again" });
    await decided(caller, same.body.instance_id);
    expect(await shown(caller, brand)).toMatchObject({ round: 2, state: "done" });
    expect(await ends(caller, brand)).toBe(2);
  });

  it("a brand's cycle ends with failed research as failed; a later retry publishes the article, and no second end is sent", async () => {
    const { caller, brand } = await stranger();
    await fail({ upstream: "search", match: `bad ${brand}`, status: 401, remaining: null });
    await cycle(caller, { brand, cycle: "w1", keywords: [`bad ${brand}`, `good ${brand}`] });
    const { id } = await instance(caller, "research-keyword", "errored");
    await stands(caller, brand, { live: 1 });
    expect(await shown(caller, brand)).toMatchObject({ state: "running", counts: { running: 1, published: 1 }, told: null });
    await look(caller, brand);
    const ended = { ...NONE, published: 1, failed: 1 };
    expect(await done(caller, brand)).toMatchObject({ counts: { ...ended, running: 0 }, told: ended });

    await fail();
    await caller.post(`/v1/instances/${id}/retry`, { reason: "the search works again" });
    await stands(caller, brand, { live: 2 });
    expect(await shown(caller, brand)).toMatchObject({ state: "done", counts: { ...NONE, published: 2 }, told: ended });
    await look(caller, brand);
    expect(await ends(caller, brand)).toBe(1);
  });

  it("a brand's cycle that waits for another keyword counts failed work that is retried meanwhile as in progress", async () => {
    const { caller, brand } = await stranger();
    await wantsApproval(caller, brand);
    await fail({ upstream: "search", match: `bad ${brand}`, status: 401, remaining: null });
    await cycle(caller, { brand, cycle: "w1", keywords: [`bad ${brand}`, `good ${brand}`] });
    const { id } = await instance(caller, "research-keyword", "errored");
    await stands(caller, brand, { drafts: 1 });
    await look(caller, brand);
    expect(await shown(caller, brand)).toMatchObject({ state: "running", counts: { failed: 1, running: 1 } });

    await fail();
    await caller.post(`/v1/instances/${id}/retry`, { reason: "the search works again" });
    await stands(caller, brand, { drafts: 2 });
    const { body } = await until(
      () => caller.get("/v1/approvals?state=pending"),
      ({ body }) => body.items.length === 2,
    );
    for (const [index, { id: approval }] of body.items.entries()) {
      await caller.post(`/v1/approvals/${approval}/${index === 0 ? "approve" : "reject"}`, { reason: "so" });
    }
    expect(await done(caller, brand)).toMatchObject({ told: { ...NONE, published: 1, rejected: 1 } });
    expect(await ends(caller, brand)).toBe(1);
  });

  it("a brand's cycle waits for a further site after the first one has failed, and counts the article as published", async () => {
    const { caller, brand } = await stranger();
    await withTargets(caller, brand, { rate_per_second: 100 });
    const faults = { upstream: "pages", remaining: null } as const;
    await fail({ ...faults, match: `${brand}/oolong`, status: 400 }, { ...faults, match: `${brand}/shop/`, status: 503 });
    await decided(caller, await cycle(caller, { brand, cycle: "w1", keywords: ["oolong"] }));
    const { body } = await until(
      () => caller.get("/v1/instances?workflow=publish-article"),
      ({ body }) => body.items[0]?.status === "errored",
    );
    await until(
      () => caller.get("/v1/instances?workflow=publish-to-site"),
      ({ body }) => body.items.length > 0,
    );
    await look(caller, brand);
    expect(await shown(caller, brand)).toMatchObject({ state: "running", told: null, counts: { running: 1 } });
    await fail();
    await standsAt(caller, body.items[0].subject, { main: "failed", shop: "published" });
    expect((await done(caller, brand)).told).toEqual({ ...NONE, published: 1 });
  });

  it("a brand's cycle does not end with a failure that was retried since the agent read it", async () => {
    const { caller, brand } = await stranger();
    await fail({ upstream: "pages", match: brand, status: 400, remaining: null });
    await cycle(caller, { brand, cycle: "w1", keywords: ["a"] });
    const { id, subject } = await instance(caller, "publish-article", "errored");
    // The agent has read the failure, and is about to end the cycle. The instance is running again.
    await inside(caller, brand, ({ sql }) => sql.exec("UPDATE cycle_keywords SET is_stuck = 1").rowsWritten);
    await env.DB.prepare("UPDATE millrace_instances SET status = 'running' WHERE id = ?1").bind(id).run();
    await look(caller, brand);
    expect(await shown(caller, brand)).toMatchObject({ state: "running", keywords: [{ state: "draft", content_id: subject }] });

    await env.DB.prepare("UPDATE millrace_instances SET status = 'errored' WHERE id = ?1").bind(id).run();
    await look(caller, brand);
    expect(await done(caller, brand)).toMatchObject({ told: { ...NONE, failed: 1 }, keywords: [{ state: "failed" }] });
    await fail();
    await caller.post(`/v1/instances/${id}/retry`, { reason: "the page store works again" });
    await becomes(caller, { id: subject }, "published");
    await stands(caller, brand, { live: 1 });
    expect(await shown(caller, brand)).toMatchObject({ counts: { ...NONE, published: 1 }, told: { ...NONE, failed: 1 } });
    expect(await ends(caller, brand)).toBe(1);
  });
});

describe("The commands of a brand's cycle", () => {
  it("the commands of a brand's cycle without a correlation id belong to the job of its brand and cycle; with a correlation id, to that job", async () => {
    const { caller, brand } = await stranger();
    const ask = (name: string, job: object) =>
      caller.post("/v1/commands", { type: "brand.cycle", payload: { brand, cycle: name, keywords: [name] }, ...job });
    const [derived, given] = [await ask("w1", {}), await ask("w2", { correlation_id: "mine" })];
    expect([derived.body.correlation_id, given.body.correlation_id]).toEqual([`brand-cycle-${brand}-w1`, "mine"]);
    await Promise.all([done(caller, brand, "w1"), done(caller, brand, "w2")]);
    const { items } = (await caller.get("/v1/instances?workflow=research-keyword")).body;
    expect(items.map((one: Json) => one.correlation_id).sort()).toEqual([`brand-cycle-${brand}-w1`, "mine"].sort());
    expect(await ends(caller, brand)).toBe(1);
  });

  it("the commands of a brand's cycle have one priority: high is started before the queue, low waits in the queue", async () => {
    const { caller, brand } = await stranger();
    const sent: { delaySeconds?: number; body: Envelope }[] = [];
    await runInDurableObject(brandAgentOf(env, caller.tenantId, brand), (agent) => {
      const own = agent as unknown as { env: object };
      const sendBatch = async (messages: Iterable<(typeof sent)[number]>) => void sent.push(...messages);
      own.env = { ...own.env, GATHERFEED_COMMANDS: { sendBatch } };
    });
    const ask = (priority: "high" | "normal" | "low") =>
      caller.post("/v1/commands", { type: "brand.cycle", payload: { brand, cycle: priority, keywords: [priority], priority } });
    await Promise.all((["low", "normal", "high"] as const).map(ask));
    // Only a command with high priority starts without its message.
    expect(await done(caller, brand, "high")).toMatchObject({ priority: "high", told: { ...NONE, published: 1 } });
    await until(
      async () => sent.length,
      (count) => count === 2,
    );
    const delays = sent.map(({ body, delaySeconds = 0 }) => [(body.payload_inline as Json).keyword, delaySeconds >= 300]);
    expect(Object.fromEntries(delays)).toEqual({ normal: false, low: true });
  });

  it("audits, publications and posts that a caller sends have a priority in their queues", async () => {
    const { caller, brand } = await stranger();
    const article = { content_id: fresh("none"), brand };
    for (const [type, payload] of [
      ["brand.audit", { brand }],
      ["content.publish", article],
      ["social.create", article],
    ] as const) {
      const asked = Date.now();
      const { status, body } = await caller.post("/v1/commands", { type, payload, priority: "low" });
      expect(status).toBe(202);
      expect(Date.parse(body.due_at)).toBeGreaterThanOrEqual(asked + 300_000);
      const cancelled = await caller.post(`/v1/instances/${body.instance_id}/cancel`, { reason: "Its delay was the question." });
      expect(cancelled.status).toBeLessThan(300);
    }
    const { body } = await caller.post("/v1/commands", { type: "brand.audit", payload: { brand, audit: "high" }, priority: "high" });
    await reaches(caller, body.instance_id, "complete");
  });

  it("a brand's cycle starts held keywords by priority, then by arrival", async () => {
    const { caller, brand } = await stranger();
    await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100, max_drafts: 1 });
    await fail({ upstream: "pages", match: brand, status: 400, remaining: null });
    await decided(caller, await cycle(caller, { brand, cycle: "w0", keywords: ["first"] }));
    for (const priority of ["low", "normal", "high"] as const) {
      const payload = { brand, cycle: priority, keywords: [`${priority} 1`, `${priority} 2`], priority };
      const { body } = await caller.post("/v1/commands", { type: "brand.cycle", payload });
      await reaches(caller, body.instance_id, "complete");
    }
    await inside(caller, brand, ({ sql }) => {
      const order = [...sql.exec<{ spelled: string }>("SELECT spelled FROM requests WHERE state = 'held' ORDER BY rank, place")];
      expect(order.map(({ spelled }) => spelled)).toEqual(["high 1", "high 2", "normal 1", "normal 2", "low 1", "low 2"]);
    });
    await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100, max_drafts: 3 });
    await stands(caller, brand, { held: 4 });
    const { items } = (await caller.get(`/v1/brands/${brand}/decisions?limit=2`)).body;
    expect(items.map((one: Json) => `${one.keyword} ${one.verdict}`)).toEqual(["high 2 resumed", "high 1 resumed"]);
  });
});
