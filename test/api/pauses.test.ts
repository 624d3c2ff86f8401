import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { callerWith, expectProblem, fresh, reaches, until } from "./client.ts";
import { seedInstance } from "./seed.ts";

const because = { reason: "the store is down" };

it("the list of workflows and the list of queues show a pause, its actor and reason, and the counts of the tenant", async () => {
  const caller = await callerWith(["enqueue", "read", "operate", "observe"]);
  const other = await callerWith(["read", "observe"]);
  await seedInstance(caller.tenantId, { workflow: "sync-contacts", status: "waiting" });
  const dry = await caller.post("/v1/workflows/sync-contacts/pause", { ...because, dry_run: true });
  expect([dry.status, dry.body]).toMatchObject([200, { refused: null, running: 1, waiting: 0 }]);
  const paused = await caller.post("/v1/workflows/sync-contacts/pause", because);
  expect([paused.status, paused.body]).toMatchObject([202, { bulk_action_id: null }]);
  const queued = await caller.post("/v1/queues/sm-commands/pause", because);
  expect(queued.status).toBe(202);

  const stateOf = async ({ get }: typeof caller, name: string) =>
    (await get("/v1/workflows")).body.items.find((one: { name: string }) => one.name === name);
  const pause = { all_tenants: false, by: expect.any(String), reason: because.reason, since: expect.any(String), cause: null };
  expect(await stateOf(caller, "sync-contacts")).toEqual({
    name: "sync-contacts",
    state: "paused",
    paused: { queue: null, ...pause },
    breaker: null,
    counts: { waiting: 1 },
    versions: [expect.objectContaining({ version: 1, deployed: true })],
  });
  expect(await stateOf(caller, "plan-cycle")).toMatchObject({ state: "paused", paused: { queue: "sm-commands", ...pause } });
  expect(await stateOf(other, "sync-contacts")).toMatchObject({ state: "active", paused: null, counts: {} });
  const queueOf = async ({ get }: typeof caller) =>
    (await get("/v1/queues")).body.items.find((one: { queue: string }) => one.queue === "sm-commands").paused;
  expect(await queueOf(caller)).toEqual({ queue: "sm-commands", ...pause });
  expect(await queueOf(other)).toBeNull();
});

it("a command of a paused workflow is accepted with each priority, and its instance shows the pause until the resume starts it", async () => {
  const caller = await callerWith(["enqueue", "read", "operate"]);
  expect((await caller.post("/v1/workflows/research-keyword/pause", because)).status).toBe(202);
  for (const priority of ["normal", "high"]) {
    const payload = { brand: "acme", keyword: fresh("tea") };
    const { status, body } = await caller.post("/v1/commands", { type: "research.requested", payload, priority });
    expect([status, body]).toMatchObject([202, { instance_status: "accepted" }]);
    const shown = (await caller.get(`/v1/instances/${body.instance_id}`)).body;
    expect(shown).toMatchObject({ status: "accepted", held: expect.stringMatching(/^Paused by .*: the store is down$/) });
  }
  const [{ id }] = (await caller.get("/v1/instances?workflow=research-keyword")).body.items;
  expect((await caller.post("/v1/workflows/research-keyword/resume", because)).status).toBe(202);
  expect((await reaches(caller, id, "complete")).held).toBeNull();
});

it("a pause with running set to pause starts a bulk action that pauses the tenant's running instances", async () => {
  const caller = await callerWith(["enqueue", "read", "operate", "observe"]);
  const id = await seedInstance(caller.tenantId, { workflow: "export-rows", status: "waiting" });
  await env.DB.prepare("UPDATE millrace_instances SET check_at = ?2 WHERE id = ?1")
    .bind(id, Date.now() + 3_600_000)
    .run();
  const everywhere = { ...because, running: "pause", all_tenants: true };
  expectProblem(await caller.post("/v1/workflows/export-rows/pause", everywhere), 422, "invalid_payload");
  const { status, body } = await caller.post("/v1/workflows/export-rows/pause", { ...because, running: "pause" });
  expect([status, body]).toMatchObject([202, { bulk_action_id: expect.any(String) }]);
  const bulk = await until(
    async () => (await caller.get(`/v1/bulk-actions/${body.bulk_action_id}`)).body,
    ({ done }) => done === 1,
  );
  expect(bulk).toMatchObject({ verb: "pause", matched: 1, done: 1 });
  const audit = (await caller.get(`/v1/audit?instance=${id}`)).body.items;
  expect(audit).toMatchObject([{ verb: "pause", result: "applied", before: { status: "waiting" }, after: { status: "paused" } }]);
});

it("a pause for all tenants without the scope observe is refused (403)", async () => {
  const caller = await callerWith(["read", "operate"]);
  expectProblem(await caller.post("/v1/workflows/export-rows/pause", { ...because, all_tenants: true }), 403, "forbidden");
});
