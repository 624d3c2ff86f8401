import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { app } from "../../../src/catalog.ts";
import worker from "../../../src/worker.ts";
import { callerWith, expectProblem, reaches } from "../../api/client.ts";
import { endpoint, hookUrl, outcome, received, tell } from "./hook.ts";

describe("An endpoint's configuration", () => {
  it("an endpoint's configuration increments its version with each change, and refuses a change of an older version", async () => {
    const caller = await callerWith();
    const { path } = await endpoint(caller, { description: "first" });
    expect((await caller.get(path)).body).toMatchObject({ version: 1, state: "enabled", enabled: true, changed_by: "ada", reason: null });
    const config = { url: hookUrl("x"), fact_types: ["payout", "charge"], description: "second" };
    const [one, other] = await Promise.all([1, 2].map(() => caller.call("PUT", path, { ...config, version: 1 })));
    expect([one?.status, other?.status].sort()).toEqual([200, 409]);
    expect((await caller.get(path)).body).toMatchObject({ ...config, version: 2 });
    const stale = await caller.call("PUT", path, { ...config, version: 1 });
    expect(expectProblem(stale, 409, "invalid_transition")).toMatchObject({ from: "2" });
    expectProblem(await caller.post(`${path}/enable`, { version: 7 }), 409, "invalid_transition");
  });

  it("an endpoint's configuration lists each type of fact once, for any repeats", async () => {
    const caller = await callerWith();
    const { path } = await endpoint(caller, { fact_types: ["payout", "outcome", "payout"] });
    expect((await caller.get(path)).body.fact_types).toEqual(["payout", "outcome"]);
  });

  it("an endpoint's configuration has its URL in normalised form, as it is called", async () => {
    const caller = await callerWith();
    for (const [typed, called] of [
      ["HTTP://LOCALHOST:9/a b#hidden", "http://localhost:9/a%20b"],
      ["http://127.0.0.1:9\\\\@public.example.com/", "http://127.0.0.1:9//@public.example.com/"],
      [" http://0x7f.1:9/\r\nx ", "http://127.0.0.1:9/x"],
    ]) {
      const { status, body } = await caller.post("/v1/webhooks", { url: typed, fact_types: ["outcome"] });
      expect([status, body.url]).toEqual([201, called]);
      const change = { url: typed, fact_types: ["charge"], version: 1 };
      expect((await caller.call("PUT", `/v1/webhooks/${body.id}`, change)).body.url).toBe(called);
    }
  });

  it("an invalid endpoint configuration is refused with the names of the invalid fields", async () => {
    const caller = await callerWith();
    for (const [body, path] of [
      [{ url: hookUrl("x"), fact_types: [] }, "fact_types"],
      [{ url: hookUrl("x"), fact_types: ["webhook_sent"] }, "fact_types.0"],
      [{ url: "nonsense", fact_types: ["outcome"] }, "url"],
      [{ url: hookUrl("x"), fact_types: ["outcome"], secret: "mine" }, "secret"],
    ] as const) {
      expect(expectProblem(await caller.post("/v1/webhooks", body), 422, "invalid_payload").issues).toMatchObject([{ path }]);
    }
    expect((await caller.get("/v1/webhooks")).body.items).toEqual([]);
  });

  it("endpoints are listed newest first, page by page, and deleted ones only on request", async () => {
    const caller = await callerWith();
    const made = [await endpoint(caller), await endpoint(caller), await endpoint(caller)];
    await caller.call("DELETE", made[1]?.path ?? "");
    const first = (await caller.get("/v1/webhooks?limit=1")).body;
    const second = (await caller.get(`/v1/webhooks?limit=1&cursor=${first.next_cursor}`)).body;
    expect([first, second].flatMap(({ items }) => items.map(({ id }: { id: string }) => id))).toEqual([made[2]?.id, made[0]?.id]);
    expect(second.next_cursor).toBeNull();
    expect((await caller.get("/v1/webhooks?deleted=true")).body.items).toHaveLength(3);
  });

  it("a deleted endpoint remains readable and cannot be restored", async () => {
    const caller = await callerWith();
    const { path } = await endpoint(caller);
    expect((await caller.call("DELETE", path)).body).toMatchObject({ version: 2, state: "deleted" });
    expect((await caller.get(path)).body).toMatchObject({ state: "deleted" });
    expect((await caller.get(`${path}/secrets`)).body.items).toEqual([]);
    const config = { version: 2, url: hookUrl("x"), fact_types: ["outcome"] };
    expectProblem(await caller.call("PUT", path, config), 409, "invalid_transition");
    expectProblem(await caller.post(`${path}/enable`, { version: 2 }), 409, "invalid_transition");
    expectProblem(await caller.post(`${path}/rotate`, {}), 409, "invalid_transition");
    expectProblem(await caller.post(`${path}/test`, {}), 409, "invalid_transition");
    expectProblem(await caller.call("DELETE", path), 409, "invalid_transition");
  });

  it("a tenant can have a hundred endpoints", async () => {
    const caller = await callerWith();
    const register = () => caller.post("/v1/webhooks", { url: hookUrl("x"), fact_types: ["outcome"] });
    for (let count = 0; count < 100; count++) expect((await register()).status).toBe(201);
    expectProblem(await register(), 409, "invalid_transition");
  });
});

describe("A test delivery", () => {
  it("a test delivery is sent to its endpoint only, is signed as a fact is, and is listed", async () => {
    const caller = await callerWith();
    const [asked, other] = [await endpoint(caller, { fact_types: ["payout"] }), await endpoint(caller)];
    const { status, body, headers } = await caller.post(`${asked.path}/test`, {});
    expect(status).toBe(202);
    expect(headers.get("location")).toBe(`${asked.path}/deliveries/${body.delivery_id}`);
    expect(["pending", "sent"]).toContain((await caller.get(headers.get("location") ?? "")).body.state);
    const sent = await asked.delivery("sent");
    expect(sent).toMatchObject({ id: body.delivery_id, fact_type: "webhook.test", attempts: [{ status: 204 }] });
    expect((await caller.get(`/v1/instances/${body.instance_id}`)).body).toMatchObject({ workflow: "deliver-webhook", subject: asked.id });
    const [request] = await received(asked.hook, 1);
    expect(request).toMatchObject({ id: body.delivery_id, verified: [true] });
    expect(JSON.parse(request?.body ?? "")).toMatchObject({ type: "webhook.test", data: { endpoint_id: asked.id } });
    expect(await received(other.hook)).toEqual([]);
  });

  it("a test delivery that is requested twice is sent twice", async () => {
    const caller = await callerWith();
    const { hook, path } = await endpoint(caller);
    for (const _ of [1, 2]) expect((await caller.post(`${path}/test`, {})).status).toBe(202);
    expect(new Set((await received(hook, 2)).map(({ id }) => id)).size).toBe(2);
  });

  it("a test delivery that is not accepted leaves no pending delivery", async () => {
    const caller = await callerWith();
    const { path } = await endpoint(caller);
    const headers = { authorization: `Bearer ${caller.token}`, "content-type": "application/json" };
    const request = new Request(`http://localhost${path}/test`, { method: "POST", headers, body: "{}" });
    const { status } = await worker.fetch(request as never, { ...env, WEBHOOKS: undefined } as never, createExecutionContext());
    expect(status).toBe(500);
    expect((await caller.get(`${path}/deliveries`)).body.items).toEqual([]);
  });
});

it("the delivery log contains each delivery, newest first, page by page and by state", async () => {
  const caller = await callerWith();
  const { hook, path } = await endpoint(caller);
  for (let count = 1; count <= 3; count++) {
    await caller.post(`${path}/test`, {});
    await received(hook, count);
  }
  const first = (await caller.get(`${path}/deliveries?limit=2`)).body;
  const second = (await caller.get(`${path}/deliveries?limit=2&cursor=${first.next_cursor}`)).body;
  const listed = [...first.items, ...second.items];
  expect(listed.map(({ id }) => id)).toEqual((await received(hook)).map(({ id }) => id).reverse());
  expect((await caller.get(`${path}/deliveries?state=failed`)).body.items).toEqual([]);
});

it("another tenant can see, change and receive nothing of an endpoint", async () => {
  const owner = await callerWith();
  const stranger = await callerWith();
  const { hook, path, delivery } = await endpoint(owner);
  await outcome(owner.tenantId);
  const { id } = await delivery("sent");
  const config = { version: 1, url: hookUrl("x"), fact_types: ["outcome"] };
  const asked = await Promise.all([
    stranger.get(path),
    stranger.get(`${path}/secrets`),
    stranger.get(`${path}/deliveries`),
    stranger.get(`${path}/deliveries/${id}`),
    stranger.call("PUT", path, config),
    stranger.call("DELETE", path),
    stranger.post(`${path}/enable`, { version: 1 }),
    stranger.post(`${path}/rotate`, {}),
    stranger.post(`${path}/test`, {}),
  ]);
  for (const answer of asked) expectProblem(answer, 404, "webhook_not_found");
  const own = await endpoint(stranger);
  expectProblem(await stranger.get(`${own.path}/deliveries/${id}`), 404, "delivery_not_found");
  expect((await stranger.get("/v1/webhooks?deleted=true")).body.items).toHaveLength(1);
  await outcome(stranger.tenantId);
  await own.delivery("sent");
  expect(await received(hook)).toHaveLength(1);
  expect((await owner.get(path)).body).toMatchObject({ version: 1, state: "enabled" });
});

it("a read of an endpoint requires the scope read, and a change requires the scope operate", async () => {
  const { tenantId, ...owner } = await callerWith();
  const { path } = await endpoint({ tenantId, ...owner });
  const reader = await callerWith(["read"], tenantId);
  expect((await reader.get(path)).status).toBe(200);
  for (const answer of await Promise.all([
    reader.post("/v1/webhooks", {}),
    reader.call("PUT", path, {}),
    reader.call("DELETE", path),
    reader.post(`${path}/rotate`, {}),
    reader.post(`${path}/test`, {}),
  ]))
    expectProblem(answer, 403, "forbidden");
  const enqueuer = await callerWith(["enqueue"], tenantId);
  expectProblem(await enqueuer.get(path), 403, "forbidden");
});

it("T01 a command for another tenant's endpoint sends nothing", async () => {
  const owner = await callerWith();
  const stranger = await callerWith();
  const { hook, id } = await endpoint(owner);
  await tell(hook, { treatments: [] });
  const payload = { endpoint_id: id, config_version: 1, entity: "account/x", fact_id: "x", fact_type: "outcome", body: "{}" };
  const [accepted] = await acceptCommands(env, app, { tenantId: stranger.tenantId, source: "test" }, [
    { type: "webhook.deliver", payload },
  ]);
  await reaches(stranger, (accepted as { instanceId: string }).instanceId, "complete");
  expect(await received(hook)).toEqual([]);
});

it("only the deployment sends signed deliveries: no token can send a delivery by a command, a batch or a schedule", async () => {
  const owner = await callerWith();
  const { id } = await endpoint(owner);
  const payload = { endpoint_id: id, config_version: 1, entity: "account/x", fact_id: "x", fact_type: "outcome", body: "{}" };
  const command = { type: "webhook.deliver", payload };
  const { detail } = expectProblem(await owner.post("/v1/commands", command), 403, "forbidden");
  expect(detail).toContain("POST /v1/webhooks/{id}/test");
  const [result] = (await owner.post("/v1/commands/batch", { commands: [command] })).body.results;
  expect(result).toMatchObject({ status: 403, problem: { code: "forbidden" } });
  const schedule = { cron: "0 7 * * 1", command, reason: "every Monday" };
  expectProblem(await owner.call("PUT", "/v1/schedules/deliveries", schedule), 403, "forbidden");
  expect((await owner.get("/v1/instances")).body.items).toEqual([]);
});
