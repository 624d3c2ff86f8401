import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { BrandAudited } from "../../../src/messages/brand.ts";
import { brandAgentOf } from "../../../src/systems/brand/brand-agents.ts";
import { progressOf } from "../../../src/systems/brand/truth.ts";
import { type Caller, callerWith, expectProblem, fresh, type Json, reaches, until } from "../../api/client.ts";
import { watched } from "../facts/watched.ts";
import { counts, cycle, decided, fail, inside, stands } from "./brand.ts";

afterEach(() => fail().then(() => undefined));

let audits = 0;

/** Audits a brand, and returns the content of the event. */
async function audit(caller: Caller, brand: string): Promise<Json> {
  const { body } = await caller.post("/v1/commands", { type: "brand.audit", payload: { brand, audit: `audit ${++audits}` } });
  await reaches(caller, body.instance_id, "complete");
  const { body: events } = await caller.get(`/v1/instances/${body.instance_id}/events?payload=true`);
  expect(events.items).toHaveLength(1);
  expect(events.items[0].message_type).toBe(BrandAudited.type);
  return BrandAudited.payload.parse(events.items[0].payload_inline);
}

async function brandWith(...keywords: string[]) {
  const caller = await callerWith();
  const brand = fresh("brand");
  await caller.call("PUT", `/v1/brands/${brand}`, { rate_per_second: 100 });
  await decided(caller, await cycle(caller, { brand, cycle: "w1", keywords }));
  return { caller, brand };
}

it("an audit of a brand in the recorded state reports no finding", async () => {
  const { caller, brand } = await brandWith("a", "b");
  await stands(caller, brand, { live: 2 });
  expect(await audit(caller, brand)).toEqual({ brand, drafts: 0, live: 2, findings: [] });
  expect((await caller.get(`/v1/brands/${brand}`)).body.last_audit).toMatchObject({ findings: [] });
});

it("an audit corrects every wrong state of an agent, and reports each once", async () => {
  const { caller, brand } = await brandWith("a", "b", "c", "d");
  await stands(caller, brand, { live: 4 });
  const ids = await inside(caller, brand, ({ sql }) => {
    const rows = [...sql.exec<{ content_id: string; keyword: string }>("SELECT content_id, keyword FROM articles ORDER BY keyword")];
    // A lost event, an event that was applied wrongly, an event about an unknown article, and missing research.
    sql.exec("DELETE FROM articles WHERE keyword = 'a'");
    sql.exec("UPDATE articles SET state = 'draft', revision = 1 WHERE keyword = 'b'");
    sql.exec("UPDATE articles SET state = 'rejected' WHERE keyword = 'c'");
    sql.exec("INSERT INTO articles (content_id, keyword, revision, state, at) VALUES ('ghost', 'd', 9, 'draft', 0)");
    sql.exec("DELETE FROM research WHERE keyword = 'd'");
    return rows.map(({ content_id }) => content_id);
  });
  expect(await counts(caller, brand)).toMatchObject({ live: 1, drafts: 2 });
  const told = await audit(caller, brand);
  expect(told).toMatchObject({ live: 4, drafts: 0 });
  expect(told.findings.toSorted()).toEqual([
    "The article ghost does not exist: it is forgotten.",
    `“a”: the article ${ids[0]} is live at revision 2; it was not known.`,
    `“b”: the article ${ids[1]} is live at revision 2; it was recorded as a draft.`,
    `“c”: the article ${ids[2]} is live at revision 2; it was recorded as rejected.`,
    expect.stringMatching(/^“d”: its research [0-9a-f]{32} was not known\.$/),
  ]);
  expect((await audit(caller, brand)).findings).toEqual([]);
});

it("a brand's failed work is not counted, and is counted again when an operator has retried it", async () => {
  const caller = await callerWith();
  const brand = fresh("brand");
  await fail({ upstream: "search", match: brand, status: 401, remaining: null });
  await cycle(caller, { brand, cycle: "w1", keywords: [`a ${brand}`] });
  const { body } = await until(
    () => caller.get("/v1/instances?workflow=research-keyword&status=errored"),
    (answer) => answer.body.items.length === 1,
  );
  const [{ id }] = body.items;
  expect(await counts(caller, brand)).toMatchObject({ on_their_way: 1 });
  expect((await audit(caller, brand)).findings).toEqual([`“a ${brand}” no longer counts as on its way: its instance is errored (${id}).`]);
  expect(await counts(caller, brand)).toMatchObject({ on_their_way: 0 });
  await fail();
  await caller.post(`/v1/instances/${id}/retry`, { reason: "the search works again" });
  expect(await stands(caller, brand, { live: 1 })).toEqual({ live: 1, drafts: 0, on_their_way: 0, held: 0 });
  expect((await audit(caller, brand)).findings).toEqual([]);
  // Research that failed permanently and was done later counts as done.
  const requests = ({ sql }: DurableObjectStorage) => sql.exec("SELECT instance_id, state FROM requests").toArray();
  expect(await inside(caller, brand, requests)).toEqual([{ instance_id: id, state: "done" }]);
});

it("the audit applies a lost event about research", async () => {
  const caller = await callerWith();
  const brand = fresh("brand");
  await fail({ upstream: "text", match: `Keyword: a ${brand}`, status: 503, remaining: null });
  await cycle(caller, { brand, cycle: "w1", keywords: [`a ${brand}`] });
  await until(
    () => caller.get(`/v1/brands/${brand}/keywords`),
    ({ body }) => body.items?.[0]?.state === "writing",
  );
  await inside(caller, brand, ({ sql }) => {
    sql.exec("DELETE FROM articles");
    sql.exec("UPDATE requests SET state = 'sent'");
  });
  const { findings } = await audit(caller, brand);
  expect(findings).toEqual([expect.stringMatching(`^“a ${brand}”: its research has led on to the article [0-9a-f]{32}.$`)]);
  expect(await counts(caller, brand)).toMatchObject({ on_their_way: 1 });
});

it("an audit that reaches the agent twice has the same findings", async () => {
  const { caller, brand } = await brandWith("a");
  await stands(caller, brand, { live: 1 });
  await inside(caller, brand, ({ sql }) => sql.exec("DELETE FROM articles").rowsWritten);
  const { body } = await caller.post("/v1/commands", { type: "brand.audit", payload: { brand, audit: "twice" } });
  await reaches(caller, body.instance_id, "complete");
  const first = (await caller.get(`/v1/brands/${brand}`)).body.last_audit;
  expect(first.findings).toHaveLength(1);
  const nothing = { articles: [], research: [], begun: [], ended: [], gone: { articles: [], research: [] } };
  const again = await brandAgentOf(env, caller.tenantId, brand).reconcile(
    { tenant_id: caller.tenantId, brand, instance_id: body.instance_id },
    nothing,
  );
  expect(again.findings).toEqual(first.findings);
});

it("research can be reused only for its own brand and keyword, and only while it exists", async () => {
  const { caller, brand } = await brandWith("a");
  await stands(caller, brand, { live: 1 });
  const { body } = await caller.get(`/v1/brands/${brand}/keywords`);
  const reuse = body.items[0].research.id;
  const stranger = await callerWith();
  const refused = async (by: Caller, payload: object) => {
    const answer = await by.post("/v1/commands", { type: "research.requested", payload });
    return (await reaches(by, answer.body.instance_id, "errored")).error;
  };
  expect(await refused(caller, { brand, keyword: "b", reuse })).toMatchObject({ code: "not_retryable", attempts: 1 });
  expect(await refused(caller, { brand: "other", keyword: "a", reuse })).toMatchObject({ code: "not_retryable" });
  expect((await refused(stranger, { brand, keyword: "a", reuse })).message).toContain(`The research ${reuse} does not exist`);
  expectProblem(await stranger.get(`/v1/brands/${brand}`), 404, "brand_not_found");
});

it("a brand's first cycle creates a weekly schedule of its audits, which an operator can change", async () => {
  const { caller, brand } = await brandWith("a");
  const path = `/v1/schedules/audit-${brand}`;
  const { body } = await caller.get(path);
  expect(body).toMatchObject({
    cron: expect.stringMatching(/^\d+ [3-7] \* \* 1$/),
    state: "active",
    command: { type: "brand.audit", payload: { brand } },
    changed_by: "brand-agent",
  });
  expect(new Date(body.next_at).getUTCDay()).toBe(1);

  await caller.post(`${path}/pause`, { reason: "not now" });
  await decided(caller, await cycle(caller, { brand, cycle: "w2", keywords: ["b"] }));
  expect((await caller.get(path)).body).toMatchObject({ state: "paused", revision: 2 });

  const run = await caller.post(`${path}/run`, { reason: "before the meeting" });
  await reaches(caller, run.body.instance_id, "complete");
});

it("an audit stores the first thousand findings of a brand, and counts the others", async () => {
  const caller = await callerWith();
  const agent = brandAgentOf(env, caller.tenantId, "large");
  const articles = Array.from({ length: 1200 }, (_, index) => ({
    content_id: `a${index}`,
    keyword: `keyword ${index}`,
    revision: 2,
    state: "live" as const,
  }));
  const truth = { articles, research: [], begun: [], ended: [], gone: { articles: [], research: [] } };
  const { counts, findings } = await agent.reconcile({ tenant_id: caller.tenantId, brand: "large", instance_id: "first" }, truth);
  expect(counts.live).toBe(1200);
  expect(findings).toHaveLength(1001);
  expect(findings.at(-1)).toBe("And 200 more.");
});

it("an audit finds running work by its ids, for any number of the tenant's instances", async () => {
  const { caller, brand } = await brandWith("a");
  await stands(caller, brand, { live: 1 });
  const { body } = await caller.get("/v1/instances?workflow=research-keyword");
  const { db, ran } = watched();
  const open = [{ instance_id: body.items[0].id, correlation_id: body.items[0].correlation_id, at: 0 }];
  expect(await progressOf(db, caller.tenantId, open)).toMatchObject({ begun: [{ request: body.items[0].id, keyword: "a" }], ended: [] });
  expect(ran.map(({ plan }) => plan.find((line) => /instances|SEARCH i /.test(line)))).toEqual([
    expect.stringContaining("(id=?)"),
    expect.stringContaining("(tenant_id=? AND correlation_id=?)"),
  ]);
});

it("a brand's messages that were not sent because of a lost alarm are sent at the agent's next event", async () => {
  const { caller, brand } = await brandWith("a");
  await stands(caller, brand, { live: 1 });
  const agent = brandAgentOf(env, caller.tenantId, brand);
  await inside(caller, brand, async (storage) => {
    storage.sql.exec("UPDATE requests SET state = 'to_send'");
    await storage.deleteAlarm();
  });
  await agent.wake();
  const state = await until(
    () => inside(caller, brand, ({ sql }) => sql.exec<{ state: string }>("SELECT state FROM requests").one().state),
    (state) => state === "sent",
  );
  expect(state).toBe("sent");
});

it("an audit of an unknown brand fails with that reason, and creates no brand", async () => {
  const caller = await callerWith();
  const { body } = await caller.post("/v1/commands", { type: "brand.audit", payload: { brand: "acmee" } });
  expect((await reaches(caller, body.instance_id, "errored")).error).toMatchObject({
    code: "not_retryable",
    message: 'There is no brand "acmee" to audit. GET /v1/brands lists them.',
  });
  expect((await caller.get("/v1/brands")).body.items).toEqual([]);
});
