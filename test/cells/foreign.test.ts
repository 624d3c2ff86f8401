import { createExecutionContext, createMessageBatch, getQueueResult, runInDurableObject } from "cloudflare:test";
import { ids } from "millrace";
import { keeperRound, settleCounts } from "millrace/testing";
import { cellOf, keeperOf } from "millrace/worker";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { until } from "../until.ts";
import { answer, ask, env, forgetFifth, isPerformed, know, letter, oneIn, order, prepare, rows } from "./asked.ts";
import handler from "./worker.ts";

const tenants = Array.from({ length: 20 }, (_, index) => `guest-${index}`);

beforeAll(() => prepare(tenants));

it("a token or sign-in code that names a cell outside the deployment is refused (401)", async () => {
  for (const cell of ["x000", "x001", "x005", "x999"]) {
    know("nobody", `mr_${cell}${"0".repeat(12)}_${"A".repeat(43)}`);
    expect((await answer("nobody", "/v1/caller")).status).toBe(401);
  }
  for (const cell of ["0", "000", "5", "999", ""]) {
    const code = `mc${cell}_${"A".repeat(43)}`;
    expect((await answer("nobody", "/console/sign-in", { code })).status).toBe(401);
  }
});

it("a tenant with an unknown cell delays only its own messages of a batch", async () => {
  const good = await oneIn(2, tenants);
  await order(good, "first");
  const cell = await cellOf(env, good);
  const [row] = await rows<{ envelope: string }>(
    cell,
    "SELECT envelope FROM millrace_instances WHERE id = ?",
    ids.instance(good, "order", "first"),
  );
  const envelope = JSON.parse(row?.envelope ?? "");
  await env.DB.prepare("INSERT INTO millrace_cells (tenant_id, cell) VALUES ('lost', 9)").run();
  onTestFinished(async () => void (await forgetFifth()));
  const bodies = [
    { ...envelope, tenant_id: "lost" },
    { ...envelope, idempotency_key: "second", payload_inline: { id: "second" } },
  ];
  const timestamp = new Date();
  const messages = bodies.map((body, index) => ({ id: String(index), timestamp, attempts: 1, body }));
  const batch = createMessageBatch("millrace", messages);
  const ctx = createExecutionContext();
  await handler.queue?.(batch, env as never, ctx);
  const settled = await getQueueResult(batch, ctx);
  expect(settled.retryMessages.map(({ msgId }) => msgId)).toEqual(["0"]);
  expect(settled.explicitAcks).toEqual(["1"]);
  await isPerformed(good, "second");
});

it("the cost of the deployment is the same for callers of all cells, and contains the keepers and the runs of all cells", async () => {
  const [first, third] = [await oneIn(1, tenants), await oneIn(3, tenants)];
  await order(first, "priced");
  await isPerformed(first, "priced");
  await settleCounts(env);
  type Costs = { fixed: { object_gb_seconds: number; d1_gb: number }; workflows: { workflow: string; runs: { day: number } }[] };
  const [own, other] = [await ask<Costs>(first, "/v1/costs"), await ask<Costs>(third, "/v1/costs")];
  const ordered = ({ workflows }: Costs) => workflows.find(({ workflow }) => workflow === "order");
  expect(ordered(own)).toMatchObject({ basis: "runs", runs: { day: expect.any(Number) } });
  expect(ordered(own)?.runs.day).toBeGreaterThan(0);
  expect(ordered(other)).toEqual(ordered(own));
  // A month of four keepers, each with 0.125 GB.
  expect(other.fixed.object_gb_seconds).toBeGreaterThanOrEqual(4 * 30 * 86_400 * 0.125);
});

it("an alert is sent once if the tenant of alerts lives in another cell than the first", async () => {
  const tenant = await oneIn(3, tenants);
  const third = await cellOf(env, tenant);
  const setTenant = (ALERTS_TENANT: string | undefined) =>
    runInDurableObject(keeperOf(env), (keeper) => {
      const own = keeper as unknown as { env: object };
      own.env = { ...own.env, ALERTS_TENANT };
    });
  await setTenant(tenant);
  onTestFinished(() => setTenant(undefined));
  await letter(await cellOf(env, await oneIn(2, tenants)), "sent-to-another-cell");
  await keeperRound(env);
  const notices = () => rows(third, "SELECT id FROM probe_rows WHERE kind = 'notice' AND name = 'dead_letter_arrived'");
  expect(await until(notices, ({ length }) => length > 0)).toHaveLength(1);
  const unsent = async () => [
    ...(await rows(env, "SELECT id FROM millrace_outbox")),
    ...(await rows(third, "SELECT id FROM millrace_outbox")),
  ];
  expect(await until(unsent, ({ length }) => length === 0, 10_000)).toEqual([]);
});
