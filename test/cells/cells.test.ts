import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { ids } from "millrace";
import { dieAt, keeperRound } from "millrace/testing";
import { cellOf, keeperOf } from "millrace/worker";
import { beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { cellsOf } from "../../packages/millrace/src/contract/cells.ts";
import { recorderNames } from "../../packages/millrace/src/contract/recorder-name.ts";
import { cellsFor } from "../../packages/millrace/src/store/cells.ts";
import { until } from "../until.ts";
import { ask, env, forgetFifth, isPerformed, know, oneIn, order, prepare, rows, writtenBy } from "./asked.ts";

const tenants = Array.from({ length: 40 }, (_, index) => `tenant-${index}`);
const others = Array.from({ length: 20 }, (_, index) => `other-${index}`);

beforeAll(() => prepare([...tenants, ...others]));

const tenantIn = (cell: number) => oneIn(cell, others);

it("the commands of 40 tenants run in four cells, each cell stores only its tenants, and each tenant lists only its own", async () => {
  await Promise.all(tenants.flatMap((tenant) => ["a", "b", "a"].map((id) => order(tenant, id))));
  for (const tenant of tenants) await Promise.all([isPerformed(tenant, "a"), isPerformed(tenant, "b")]);
  const homes = new Map<string, number>();
  for (const cell of cellsOf(env)) {
    const stored = await rows<{ tenant_id: string; n: number }>(
      cell,
      "SELECT tenant_id, count(*) AS n FROM millrace_instances WHERE tenant_id LIKE 'tenant-%' GROUP BY 1",
    );
    expect(stored.length).toBeGreaterThan(2);
    for (const { tenant_id: tenant, n } of stored) {
      expect(homes.has(tenant)).toBe(false);
      expect(n).toBe(2);
      homes.set(tenant, cell.CELL ?? 1);
    }
    // The consumer confirms each event in the database in which the event was stored.
    await until(
      () => rows(cell, "SELECT id FROM millrace_outbox"),
      ({ length }) => length === 0,
    );
    expect(await rows(cell, "SELECT id FROM millrace_outbox")).toEqual([]);
  }
  expect(homes.size).toBe(40);
  const directory = await rows<{ tenant_id: string; cell: number }>(env, "SELECT tenant_id, cell FROM millrace_cells");
  for (const { tenant_id, cell } of directory) if (tenants.includes(tenant_id)) expect(homes.get(tenant_id)).toBe(cell);
  for (const tenant of tenants) {
    const { items } = await ask<{ items: { subject: string; status: string }[] }>(tenant, "/v1/instances");
    expect(items).toHaveLength(2);
  }
});

it("a token made in a cell is valid, is audited in its cell, and signs in a browser", async () => {
  for (const cell of [1, 3]) {
    const tenant = await tenantIn(cell);
    const made = await ask<{ id: string; token: string }>(tenant, "/v1/tokens", { actor: "eve", scopes: ["read"], reason: "a test" });
    expect(made.token.startsWith("mr_x003")).toBe(cell === 3);
    const { items } = await ask<{ items: { target: string }[] }>(tenant, "/v1/audit");
    expect(items.map(({ target }) => target)).toContain(made.id);
    const as = `${tenant} as eve`;
    know(as, made.token);
    expect(await ask(as, "/v1/caller")).toMatchObject({ tenant, actor: "eve" });
    const { code } = await ask<{ code: string }>(tenant, "/v1/sign-in-codes", { reason: "a test" });
    expect(await ask(tenant, "/console/sign-in", { code })).toMatchObject({ tenant, actor: "ada" });
  }
  know("nobody", `mr_x999${"0".repeat(12)}_${"A".repeat(43)}`);
  await expect(ask("nobody", "/v1/caller")).rejects.toThrow("401");
});

it("the keeper of a cell starts a lost command and sends a lost event after its recorders and itself were killed (A03, O01)", async () => {
  const tenant = await tenantIn(3);
  const cell = await cellOf(env, tenant);
  const lost = dieAt("A03 accept committed, not enqueued");
  await order(tenant, "lost").catch(() => undefined);
  expect(lost.died()).toBe(true);
  const objects = (env as unknown as { RECORDER: DurableObjectNamespace }).RECORDER;
  for (const name of recorderNames(cell)) await evictDurableObject(objects.getByName(name)).catch(() => undefined);
  await evictDurableObject(keeperOf(cell)).catch(() => undefined);
  expect(await writtenBy(cell, tenant, "lost")).toEqual([]);
  // The keepers of other cells have nothing to do with the command.
  await keeperRound(await cellOf(env, await tenantIn(2)));
  expect(await writtenBy(cell, tenant, "lost")).toEqual([]);
  await keeperRound(cell);
  await isPerformed(tenant, "lost");

  const unsent = dieAt("O01 committed, not relayed", [ids.instance(tenant, "order", "unsent")]);
  await order(tenant, "unsent");
  await until(async () => unsent.died(), Boolean);
  await until(
    () => keeperRound(cell).then(() => writtenBy(cell, tenant, "unsent")),
    ({ length }) => length === 2,
  );
  await isPerformed(tenant, "unsent");
});

it("a keeper that only its alarm starts repairs its own cell", async () => {
  const tenant = await tenantIn(2);
  const cell = await cellOf(env, tenant);
  await keeperOf(cell).arm();
  const lost = dieAt("A03 accept committed, not enqueued");
  await order(tenant, "alarm").catch(() => undefined);
  expect(lost.died()).toBe(true);
  await cell.DB.prepare("UPDATE millrace_instances SET check_at = -accepted_at WHERE check_at IS NOT NULL").run();
  await runInDurableObject(keeperOf(cell), (_, { storage }) => storage.setAlarm(Date.now() + 1500));
  await evictDurableObject(keeperOf(cell));
  await isPerformed(tenant, "alarm");
});

it("the lanes of two tenants in two cells are in order, and each run writes into its own cell", async () => {
  for (const tenant of [await tenantIn(2), await tenantIn(4)]) {
    for (const id of ["one", "two"]) await ask(tenant, "/v1/commands", { type: "cells.ship", payload: { id } });
    const cell = await cellOf(env, tenant);
    const written = await until(
      () => rows<{ id: string }>(cell, "SELECT id FROM probe_rows WHERE kind = 'ship' AND name = ?", tenant),
      ({ length }) => length === 2,
    );
    expect(written.map(({ id }) => id)).toEqual([`ship/${tenant}/one`, `ship/${tenant}/two`]);
  }
});

it("a dead letter is in the cell of its tenant, and the lists of the fleet count the dead letters of all cells", async () => {
  const [second, fourth] = [await tenantIn(2), await tenantIn(4)];
  for (const tenant of [second, fourth]) {
    await order(tenant, "good");
    const id = ids.instance(tenant, "order", "good");
    const cell = await cellOf(env, tenant);
    const [row] = await rows<{ envelope: string }>(cell, "SELECT envelope FROM millrace_instances WHERE id = ?", id);
    const bad = { ...JSON.parse(row?.envelope ?? ""), idempotency_key: `bad-${tenant}`, payload_inline: { id: 7 } };
    await (env as unknown as { MILLRACE_QUEUE: Queue }).MILLRACE_QUEUE.send(bad);
    const letters = () => ask<{ items: { reason: string }[] }>(tenant, "/v1/dead-letters").then(({ items }) => items);
    expect(await until(letters, ({ length }) => length > 0)).toMatchObject([{ reason: "invalid_payload" }]);
  }
  const { items } = await ask<{ items: { open: number }[] }>(second, "/v1/messages/dead-letters");
  expect(items.reduce((sum, { open }) => sum + open, 0)).toBe(2);
  for (const cell of cellsOf(env)) await keeperOf(cell).readVitals();
  const metrics = await ask<string>(second, "/metrics");
  expect(metrics).toMatch(/^millrace_dead_letters_open\{.*\} 2$/m);
  expect(metrics.match(/^millrace_outbox_unconfirmed /gm)).toHaveLength(1);
  expect(await ask(second, "/healthz")).toMatchObject({ ok: true, keeper_seconds: expect.any(Number) });
});

it("a pause for all tenants holds the commands of every cell until its end", async () => {
  const [first, second] = [await tenantIn(1), await tenantIn(2)];
  const body = { reason: "a test", all_tenants: true };
  await ask(second, "/v1/workflows/order/pause", body);
  await order(first, "held");
  expect(await ask(first, "/v1/workflows")).toMatchObject({
    items: expect.arrayContaining([expect.objectContaining({ state: "paused" })]),
  });
  expect(await writtenBy(await cellOf(env, first), first, "held")).toEqual([]);
  await ask(second, "/v1/workflows/order/resume", body);
  await keeperRound(await cellOf(env, first));
  await isPerformed(first, "held");
});

it("a fifth cell moves no tenant and gets only new tenants, and a tenant from before the cells stays in the first", async () => {
  const before = await rows(env, "SELECT tenant_id, cell FROM millrace_cells ORDER BY 1");
  const old = "tenant-of-one-cell";
  const { DB } = env;
  await DB.prepare(
    "INSERT INTO millrace_tokens SELECT '0123456789abcdef', hash, ?, actor, scopes, created_at, expires_at, NULL, NULL, 0 FROM millrace_tokens LIMIT 1",
  )
    .bind(old)
    .run();
  const more = { ...env, CELLS: 5 };
  onTestFinished(async () => void (await forgetFifth()));
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 61_000 });
  onTestFinished(() => void vi.useRealTimers());
  const cells = await cellsFor(more, tenants);
  for (const { tenant_id, cell } of before as { tenant_id: string; cell: number }[])
    if (tenants.includes(tenant_id)) expect(cells.get(tenant_id)?.CELL ?? 1).toBe(cell);
  expect((await cellOf(more, old)).CELL).toBeUndefined();
  const fresh = Array.from({ length: 40 }, (_, index) => `later-${index}`);
  const placed = new Set([...(await cellsFor(more, fresh)).values()].map(({ CELL = 1 }) => CELL));
  expect([...placed].toSorted()).toEqual([1, 2, 3, 4, 5]);
  const open = await cellsFor(
    { ...more, CELLS_OPEN: "5" },
    fresh.map((name) => `${name}-open`),
  );
  expect(new Set([...open.values()].map(({ CELL }) => CELL))).toEqual(new Set([5]));
});
