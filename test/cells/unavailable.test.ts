import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { keeperRound } from "millrace/testing";
import { cellOf, keeperOf } from "millrace/worker";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import type { EngineEnv } from "../../packages/millrace/src/contract/bindings.ts";
import { cellsOf } from "../../packages/millrace/src/contract/cells.ts";
import { answer, ask, env, letter, oneIn, prepare, rows } from "./asked.ts";

const tenants = Array.from({ length: 20 }, (_, index) => `watch-${index}`);

beforeAll(() => prepare(tenants));

const refuse = () => {
  throw new Error("D1_ERROR: The database of this cell is broken.");
};
const broken = { prepare: refuse, batch: refuse, exec: refuse, withSession: refuse, dump: refuse } as unknown as D1Database;
/** The env of a request and of an object in which the third cell does not answer. */
const without3 = { ...env, DB_3: broken };

/** Breaks or repairs the database of the third cell for the keepers. */
async function setThird(DB_3: D1Database): Promise<void> {
  const change = (of: EngineEnv, bindings: object) =>
    runInDurableObject(keeperOf(of), (keeper) => void Object.assign(keeper, { env: { ...(keeper as unknown as Own).env, ...bindings } }));
  const third = await cellOf(env, await oneIn(3, tenants));
  await evictDurableObject(keeperOf(third)).catch(() => undefined);
  await change(third, { DB: DB_3 });
  await change(env, { DB_3 });
}
type Own = { env: EngineEnv };

interface Alert {
  rule: string;
  labels: { reason?: string; cell?: string };
  state: string;
}

const alerts = (rule: string) => ask<{ items: Alert[] }>(tenants[0] ?? "", `/v1/alerts?rule=${rule}`).then(({ items }) => items);
const arrived = async (reason: string) => (await alerts("dead_letter_arrived")).find(({ labels }) => labels.reason === reason)?.state;
const quietSince = (reason: string) =>
  rows<{ quiet_since: number | null }>(
    env,
    "SELECT quiet_since FROM millrace_alerts WHERE rule = 'dead_letter_arrived' AND labels->>'reason' = ?",
    reason,
  ).then(([row]) => row?.quiet_since);

it("a cell without an answer raises an alert, ends no other alert, and the alerts of the other cells are raised", async () => {
  const [second, third] = await Promise.all([2, 3].map(async (cell) => cellOf(env, await oneIn(cell, tenants))));
  if (!second || !third) throw new Error("Both cells have tenants.");
  await letter(second, "first");
  await letter(third, "gone");
  await keeperRound(env);
  expect([await arrived("first"), await arrived("gone")]).toEqual(["firing", "firing"]);

  await setThird(broken);
  await third.DB.prepare("DELETE FROM millrace_dead_letters").run();
  await letter(second, "second");
  await keeperRound(env);
  expect(await arrived("second")).toBe("firing");
  expect(await quietSince("gone")).toBeNull();
  expect(await alerts("cell_unavailable")).toMatchObject([{ labels: { cell: "3" }, state: "pending" }]);
  await env.DB.prepare(
    "UPDATE millrace_alerts SET since = since - 60000, critical_since = critical_since - 60000 WHERE state = 'pending'",
  ).run();
  await keeperRound(env);
  expect(await alerts("cell_unavailable")).toMatchObject([{ state: "firing", severity: "critical" }]);

  await setThird(third.DB);
  await keeperRound(env);
  expect(await quietSince("gone")).toEqual(expect.any(Number));
});

it("the lists over all cells contain the cells that answer, and name the cell that does not", async () => {
  const tenant = await oneIn(2, tenants);
  const second = await cellOf(env, tenant);
  await letter(second, "listed");
  await second.DB.prepare(
    `INSERT INTO millrace_divergences (kind, what, found_by, place, says, state, first_at, seen_at, look_at)
    VALUES ('test', 'one', 'test', '', '', 'open', 1, 1, 1)`,
  ).run();
  await setThird(broken);
  onTestFinished(() => setThird(env.DB_3));
  for (const cell of cellsOf(env))
    await keeperOf(cell)
      .readVitals()
      .catch(() => undefined);
  const seen = (path: string) => ask<object>(tenant, path, undefined, without3);
  expect(await seen("/v1/divergences")).toMatchObject({ items: [{ what: "one" }], open: { test: 1 }, cells_unavailable: [3] });
  expect(await seen("/v1/messages/dead-letters")).toMatchObject({ items: [{ queue: "millrace" }], cells_unavailable: [3] });
  expect(await seen("/v1/queues")).toMatchObject({ cells_unavailable: [3] });
  expect(await ask<string>(tenant, "/metrics", undefined, without3)).toMatch(/^millrace_cells_unavailable\{cell="3"\} 1$/m);
  // A tenant of this cell gets no partial answer.
  const own = await answer(await oneIn(3, tenants), "/v1/instances", undefined, without3);
  expect(own.status).toBeGreaterThanOrEqual(500);
  await setThird(env.DB_3);
  expect(await ask<object>(tenant, "/v1/divergences")).not.toHaveProperty("cells_unavailable");
});

it("a pause for all tenants that fails at one cell can be repeated", async () => {
  const tenant = await oneIn(2, tenants);
  const body = { reason: "a test", all_tenants: true };
  expect((await answer(tenant, "/v1/workflows/order/pause", body, without3)).status).toBeGreaterThanOrEqual(500);
  await ask(tenant, "/v1/workflows/order/pause", body);
  for (const { DB } of cellsOf(env)) {
    expect(await rows({ DB }, "SELECT id FROM millrace_pauses WHERE resumed_at IS NULL")).toEqual([{ id: "workflow/order/" }]);
  }
  await ask(tenant, "/v1/workflows/order/resume", body);
});
