import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { watched } from "../systems/facts/watched.ts";
import { type Caller, callerWith, expectProblem, fresh, send, until } from "./client.ts";
import { ask, NOW, open, placeOf, reading, run } from "./live.ts";
import { seedApproval, seedEffect, seedInstance, seedLetter } from "./seed.ts";

/** One event of every kind, in sequence: each at a later time by the database's clock. */
async function eventful({ tenantId }: Caller): Promise<{ happen: () => Promise<void>; kinds: string[] }> {
  const instance = await seedInstance(tenantId, { status: "running" });
  const doubtful = await seedInstance(tenantId, { status: "in_doubt" });
  await seedEffect(doubtful, { state: "done" });
  const letter = await seedLetter(tenantId, { reason: "exhausted" });
  const approval = await seedApproval(tenantId);
  // No two events have the same millisecond; otherwise their kind would decide the order.
  const after = (ms: number) => `${NOW} + ${ms}`;
  const happen = async () => {
    await run(`UPDATE millrace_instances SET status = 'waiting', updated_at = ${after(0)} WHERE id = ?1`, instance);
    await run(`UPDATE millrace_dead_letters SET captured_at = ${after(1)} WHERE id = ?1`, letter);
    await run(`UPDATE millrace_inbox SET state = 'in_doubt', updated_at = ${after(2)} WHERE instance_id = ?1`, doubtful);
    await run(`UPDATE millrace_approvals SET state = 'approved', decided_by = 'ada', decided_at = ${after(3)} WHERE id = ?1`, approval);
    await run(
      `INSERT INTO millrace_actions (id, tenant_id, actor, verb, target, reason, result, at, due_at, applied_at)
       VALUES (?1, ?2, 'ada', 'mute', 'x', 'It is late.', 'applied', ${after(4)}, 0, ${after(4)})`,
      crypto.randomUUID(),
      tenantId,
    );
    await run(`UPDATE millrace_instances SET status = 'paused', updated_at = ${after(5)} WHERE id = ?1`, instance);
    const last = Date.now() + 5;
    await until(
      async () => Date.now(),
      (at) => at > last,
    );
  };
  return { happen, kinds: ["dead_letter", "doubt", "approval", "action", "instance"] };
}

describe("The stream of a tenant", () => {
  it("a stream contains the live events of instances and operators from the moment it was opened", async () => {
    const caller = await callerWith(["read", "enqueue", "operate", "tokens"]);
    await seedInstance(caller.tenantId, { status: "complete" });
    const stream = await open(caller, "/v1/stream");
    await stream.untilRaw("id: ");
    const { instance_id: id } = (await caller.ask(fresh("word"))).body;
    const done = await stream.until(({ event, data }) => event === "instance" && data.id === id && data.status === "complete");
    expect(done.data).toMatchObject({ workflow: "research-keyword", error: null });
    expect(done.data).not.toHaveProperty("payload");
    await caller.post("/v1/tokens", { actor: "eve", scopes: ["read"], reason: "She looks." });
    const { data } = await stream.until(({ event }) => event === "action");
    expect(data).toMatchObject({ verb: "mint", actor: "ada", reason: "She looks.", result: "applied" });
    expect(stream.told.filter(({ event, data }) => event === "instance" && data.id !== id && data.workflow === "research-keyword")).toEqual(
      [],
    );
  });

  it("a stream contains all events in the order of the database, and resumes after any event without a lost or repeated event", async () => {
    const caller = await callerWith();
    const { happen, kinds } = await eventful(caller);
    const place = await placeOf(caller);
    await happen();
    const toEnd = async (heard: string) => {
      const stream = await open(caller, "/v1/stream", heard);
      await stream.until(({ event, data }) => event === "instance" && data.status === "paused");
      await stream.close();
      return stream.told;
    };
    const whole = await toEnd(place);
    expect(whole.map(({ event }) => event)).toEqual(kinds);
    expect(whole[2]?.data).toMatchObject({ state: "approved", decided_by: "ada" });
    for (const [at, { id }] of whole.slice(0, -1).entries()) expect(await toEnd(id)).toEqual(whole.slice(at + 1));
    const last = await open(caller, "/v1/stream", whole.at(-1)?.id);
    await last.untilRaw("id: ");
    expect(last.told).toEqual([]);
  });

  it("a stream contains the requested kinds only, and nothing of another tenant", async () => {
    const [caller, stranger] = [await callerWith(), await callerWith()];
    const { happen } = await eventful(caller);
    const place = await placeOf(caller);
    await happen();
    const chosen = await open(caller, "/v1/stream?kinds=action,dead_letter", place);
    await chosen.untilRaw("id: ");
    expect(chosen.told.map(({ event }) => event)).toEqual(["dead_letter", "action"]);
    const other = await open(stranger, "/v1/stream", place);
    await other.untilRaw("id: ");
    expect(other.told).toEqual([]);
    expectProblem(await caller.get("/v1/stream?kinds=instances"), 422, "invalid_payload");
    expectProblem(await caller.call("GET", "/v1/stream", undefined, { "last-event-id": "1.alert.x" }), 422, "invalid_payload");
  });

  it("a stream reports the number of omitted events when too many happen at once, and sends the newest", async () => {
    const caller = await callerWith();
    await Promise.all(Array.from({ length: 130 }, () => seedLetter(caller.tenantId, { reason: "exhausted" })));
    const place = await placeOf(caller);
    await run(`UPDATE millrace_dead_letters SET captured_at = ${NOW} WHERE tenant_id = ?1`, caller.tenantId);
    const stream = await open(caller, "/v1/stream", place);
    const skipped = await stream.until(({ event }) => event === "skipped");
    expect(skipped.data).toEqual({ count: 30, at_least: false });
    expect(stream.told.filter(({ event }) => event === "dead_letter").length).toBe(100);
    const rest = await open(caller, "/v1/stream", skipped.id);
    await rest.untilRaw("event: dead_letter");
    expect(rest.told).toEqual(stream.told.slice(1));
  });

  it("a stream reads its events from indexes, in one statement per poll", async () => {
    const caller = await callerWith();
    await eventful(caller).then(({ happen }) => happen());
    const { db, ran } = watched();
    const stream = await open(caller, "/v1/stream", "1", { ...env, DB: db });
    await stream.untilRaw("event: ");
    const look = ran.find(({ plan }) => plan.join().includes("actions_by_time"));
    const indexes = ["instances_by_time", "instances_errored", "dead_letters_by_tenant", "inbox_in_doubt", "approvals_by_time"];
    for (const index of indexes) expect(look?.plan.join()).toContain(index);
    expect(look?.plan.filter((step) => /SCAN (?!\(subquery|CONSTANT|entries$)|TEMP B-TREE/.test(step))).toEqual([]);
  });

  it("a stream sends a heartbeat, ends itself after some minutes, and contains the time to reconnect", async () => {
    const stream = await open(await callerWith(), "/v1/stream");
    await stream.untilRaw("id: ");
    const now = Date.now;
    const clock = vi.spyOn(Date, "now");
    try {
      clock.mockImplementation(() => now() + 16_000);
      await stream.untilRaw(": alive\nid: ");
      clock.mockImplementation(() => now() + 181_000);
      await stream.all();
      expect(stream.raw).toMatch(/retry: 1000\n\n$/);
    } finally {
      clock.mockRestore();
    }
  });

  it("a stream stops its database queries once its reader has disconnected", async () => {
    let looks = 0;
    const DB = new Proxy(env.DB, {
      get(db, name) {
        if (name === "prepare") looks++;
        const own = Reflect.get(db, name);
        return typeof own === "function" ? own.bind(db) : own;
      },
    });
    const stream = await open(await callerWith(), "/v1/stream", undefined, { ...env, DB });
    await stream.untilRaw("id: ");
    const reading = stream.read().catch(() => false);
    await vi.waitFor(() => expect(looks).toBeGreaterThan(2), { timeout: 20_000 });
    await stream.close();
    await reading;
    const before = looks;
    const other = await open(await callerWith(), "/v1/stream");
    await other.untilRaw("id: ");
    await Promise.race([other.read(), scheduler.wait(2500)]);
    expect(looks).toBe(before);
  });

  it("one token can open ten streams, and one more when one is closed", async () => {
    const caller = await callerWith();
    const streams = [];
    for (let n = 0; n < 10; n++) streams.push(await open(caller, "/v1/stream"));
    const refused = await ask("/v1/stream", { authorization: `Bearer ${caller.token}` });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "10"]);
    expect(await refused.json()).toMatchObject({ code: "rate_limited", detail: expect.stringContaining("10 streams") });
    await streams[0]?.close();
    reading(await ask("/v1/stream", { authorization: `Bearer ${caller.token}` }));
  });
});

it("a tenant has one limit of streams, and so does a token with its descendants; another tenant's streams are not counted", async () => {
  const heirOf = async ({ token }: Pick<Caller, "token">): Promise<{ token: string }> => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const body = JSON.stringify({ actor: "eve", scopes: ["read", "tokens"], reason: "She looks." });
    return (await send("/v1/tokens", { method: "POST", headers, body })).body;
  };
  const fill = async (caller: { token: string }) => {
    for (let n = 0; n < 10; n++) await open(caller, "/v1/stream");
  };
  const refusedTo = async ({ token }: { token: string }) => {
    const answer = await ask("/v1/stream", { authorization: `Bearer ${token}` });
    return answer.status === 429 ? [429, await answer.json()] : [answer.status];
  };
  const first = await callerWith(["read", "tokens"]);
  const heir = await heirOf(first);
  const grandchild = await heirOf(heir);
  for (const one of [first, heir, grandchild]) await fill(one);
  const other = await heirOf(first);
  expect(await refusedTo(other)).toEqual([429, expect.objectContaining({ detail: expect.stringContaining("30 streams") })]);
  const streamToken = (await first.post("/v1/stream-tokens", { path: "/v1/stream" })).body.token;
  expect((await ask(`/v1/stream?token=${streamToken}`)).status).toBe(429);

  const second = await callerWith(["read", "tokens"], first.tenantId);
  for (const one of [second, await heirOf(second), await heirOf(second)]) await fill(one);
  const third = await callerWith(["read"], first.tenantId);
  expect(await refusedTo(third)).toEqual([429, expect.objectContaining({ detail: expect.stringContaining("60 streams") })]);
  await open(await callerWith(["read"]), "/v1/stream");
});

describe("A stream token", () => {
  const minted = async (caller: Caller, path: string) => (await caller.post("/v1/stream-tokens", { path })).body;

  it("a stream token opens the stream of its path for a minute, without a header, and an opened stream continues", async () => {
    const caller = await callerWith(["read"]);
    const id = await seedInstance(caller.tenantId, { status: "complete" });
    const path = `/v1/instances/${id}/stream`;
    const { token, expires_at } = await minted(caller, path);
    expect(Date.parse(expires_at) - Date.now()).toBeLessThanOrEqual(60_000);
    const told = await reading(await ask(`${path}?token=${token}`)).all();
    expect(told.at(-1)).toMatchObject({ event: "end", data: { status: "complete" } });
    expect((await ask(`${path}?token=${token}&last_event_id=${told.at(-1)?.id}`)).status).toBe(204);
    const all = await minted(caller, "/v1/stream");
    const stream = reading(await ask(`/v1/stream?kinds=instance&token=${all.token}`));
    await stream.untilRaw("id: ");
    const now = Date.now;
    const clock = vi.spyOn(Date, "now").mockImplementation(() => now() + 61_000);
    try {
      await stream.untilRaw(": alive");
      const late = await ask(`/v1/stream?token=${all.token}`);
      expect([late.status, await late.json()]).toEqual([401, expect.objectContaining({ detail: expect.stringContaining("has expired") })]);
    } finally {
      clock.mockRestore();
    }
  });

  it("a stream token opens no stream, and its opened stream ends, once the token that created it is revoked", async () => {
    const caller = await callerWith(["read"]);
    const { token } = await minted(caller, "/v1/stream");
    const admin = await callerWith(["tokens"], caller.tenantId);
    const stream = reading(await ask(`/v1/stream?token=${token}`));
    await stream.untilRaw("id: ");
    expect((await admin.call("DELETE", `/v1/tokens/${caller.token.slice(3, 19)}`)).status).toBe(204);
    await stream.all();
    // Two separate ends would include the pause before the next stream.
    expect(stream.raw.split("retry:")).toHaveLength(2);
    const late = await ask(`/v1/stream?token=${token}`);
    expect([late.status, await late.json()]).toEqual([401, expect.objectContaining({ detail: expect.stringContaining("was revoked") })]);
  });

  it("a stream token is refused for any other path, method, tenant or header, and when it is changed", async () => {
    const [caller, stranger] = [await callerWith(["read", "operate"]), await callerWith()];
    const id = await seedInstance(caller.tenantId, { status: "complete" });
    const { token } = await minted(caller, "/v1/stream");
    const statusOf = async (...asked: Parameters<typeof ask>) => (await ask(...asked)).status;
    expect(await statusOf(`/v1/instances/${id}/stream?token=${token}`)).toBe(401);
    expect(await statusOf(`/v1/instances?token=${token}`)).toBe(401);
    expect(await statusOf(`/v1/instances/${id}?token=${token}`)).toBe(401);
    expect(await statusOf(`/v1/instances/${id}/retry?token=${token}`, {}, env, "POST")).toBe(401);
    expect(await statusOf(`/v1/stream-tokens?token=${token}`, {}, env, "POST")).toBe(401);
    expect(await statusOf("/v1/stream", { authorization: `Bearer ${token}` })).toBe(401);
    expect(await statusOf(`/v1/stream?token=${token.slice(0, -1)}x`)).toBe(401);
    expect(await statusOf(`/v1/stream?token=${token.replace(/^./, "f")}`)).toBe(401);
    const path = `/v1/instances/${id}/stream`;
    const theirs = await minted(stranger, path);
    expect(await statusOf(`${path}?token=${theirs.token}`)).toBe(404);
    expectProblem(await caller.post("/v1/stream-tokens", { path: `/v1/instances/${id}` }), 422, "invalid_payload");
    expectProblem(await (await callerWith(["enqueue"])).post("/v1/stream-tokens", { path: "/v1/stream" }), 403, "forbidden");
  });

  it("a stream token does not appear in the database or in the log", async () => {
    const caller = await callerWith(["read", "tokens"]);
    const { token } = await minted(caller, "/v1/stream");
    const logs = [vi.spyOn(console, "log"), vi.spyOn(console, "warn"), vi.spyOn(console, "error")];
    await ask(`/v1/instances/x/stream?token=${token}`);
    await reading(await ask(`/v1/stream?token=${token}`)).untilRaw("id: ");
    const said = JSON.stringify(logs.flatMap((log) => log.mock.calls));
    for (const log of logs) log.mockRestore();
    expect(said).not.toContain(token);
    expect((await caller.get("/v1/audit")).body.items).toEqual([]);
    expect((await caller.get("/v1/tokens")).body.items.length).toBe(1);
  });
});
