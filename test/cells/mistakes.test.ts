import { createExecutionContext, createMessageBatch, getQueueResult, runInDurableObject } from "cloudflare:test";
import { ids } from "millrace";
import { tokens as accessTokens } from "millrace/operate";
import { keeperRound } from "millrace/testing";
import { cellOf, keeperOf } from "millrace/worker";
import { beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { cellsOf, inCell } from "../../packages/millrace/src/contract/cells.ts";
import { homes } from "../../packages/millrace/src/reconcile/checks/homes.ts";
import { answer, ask, env, forgetFifth, isPerformed, know, oneIn, order, prepare, rows } from "./asked.ts";
import handler from "./worker.ts";

const tenants = Array.from({ length: 30 }, (_, index) => `client-${index}`);
const token = (tenantId: string) => accessTokens.mint(env, { tenantId, actor: "eve", scopes: ["enqueue", "read"] });

beforeAll(async () => {
  await prepare(tenants);
  for (const tenant of tenants) await cellOf(env, tenant);
});

/** An order as an external sender puts it into the queue. */
async function envelopeOf(tenant: string, id: string): Promise<object> {
  await order(tenant, "first");
  const select = "SELECT envelope FROM millrace_instances WHERE id = ?";
  const [row] = await rows<{ envelope: string }>(await cellOf(env, tenant), select, ids.instance(tenant, "order", "first"));
  return { ...JSON.parse(row?.envelope ?? ""), idempotency_key: id, payload_inline: { id } };
}

/** Delivers messages to a version of the Worker, and returns the places of the messages that were returned to the queue. */
async function deliver(bodies: readonly object[], given: object): Promise<number[]> {
  const messages = bodies.map((body, index) => ({ id: String(index), timestamp: new Date(), attempts: 1, body }));
  const batch = createMessageBatch("millrace", messages);
  const ctx = createExecutionContext();
  await handler.queue?.(batch, given as never, ctx);
  const { retryMessages, explicitAcks } = await getQueueResult(batch, ctx);
  expect(retryMessages.length + explicitAcks.length).toBe(bodies.length);
  return retryMessages.map(({ msgId }) => Number(msgId)).sort();
}

const code = async (response: Promise<Response>) => ((await (await response).json()) as { code?: string; detail?: string }).code;

/** The cells with an instance of a tenant. */
async function homesOf(tenant: string, key: string): Promise<number[]> {
  const id = ids.instance(tenant, "order", key);
  const found = cellsOf(env).map(async ({ DB, CELL = 1 }) => {
    return (await rows({ DB }, "SELECT 1 FROM millrace_instances WHERE id = ?", id)).map(() => CELL);
  });
  return (await Promise.all(found)).flat();
}

it("a lowered CELLS refuses the tenants of the other cells, defers their messages, and is reported by health and an alert", async () => {
  const [second, third] = [await oneIn(2, tenants), await oneIn(3, tenants)];
  const bodies = [await envelopeOf(third, "next"), await envelopeOf(second, "next")];
  const two = { ...env, CELLS: 2 };
  expect(await code(answer(third, "/v1/instances", undefined, two))).toBe("config_invalid");
  know("new token", await token(third));
  expect(await code(answer("new token", "/v1/instances", undefined, two))).toBe("config_invalid");
  expect((await answer(second, "/v1/instances", undefined, two)).status).toBe(200);
  expect(await code(answer(second, "/healthz", undefined, two))).toBe("config_invalid");
  expect(await deliver(bodies, two)).toEqual([0]);
  expect([await homesOf(third, "next"), await homesOf(second, "next")]).toEqual([[], [2]]);

  const set = (CELLS: number) =>
    runInDurableObject(keeperOf(env), (keeper) => {
      const own = keeper as unknown as { env: object };
      own.env = { ...own.env, CELLS };
    });
  await set(2);
  onTestFinished(() => set(4));
  await keeperRound(env);
  const { items } = await ask<{ items: { labels: object }[] }>(second, "/v1/alerts?rule=cell_unavailable");
  expect(items.map(({ labels }) => labels)).toEqual(expect.arrayContaining([{ cell: "3" }, { cell: "4" }]));
});

it("a version with one cell starts nothing for tenants of other cells, also if it has not read the directory", async () => {
  const [first, third] = [await oneIn(1, tenants), await oneIn(3, tenants)];
  const one = { ...env, CELLS: 1 };
  const bodies = [await envelopeOf(third, "last"), await envelopeOf(first, "last")];
  expect(await deliver(bodies, one)).toEqual([0]);
  expect([await homesOf(third, "last"), await homesOf(first, "last")]).toEqual([[], [1]]);
  expect(await code(answer(third, "/v1/instances", undefined, one))).toBe("config_invalid");
  const copy = env.DB.prepare(
    `INSERT INTO millrace_instances (id, tenant_id, workflow, message_type, idempotency_key, correlation_id, causation_id, subject,
      fingerprint, envelope, status, accepted_at, updated_at)
    VALUES ('${"a".repeat(32)}', ?, 'w', 'w', 'k', 'c', 'c', 's', 'f', '{}', 'accepted', 1, 1)`,
  );
  await expect(copy.bind(third).run()).rejects.toThrow("The tenant lives in another cell");
});

it("swapped bindings of two cells refuse requests and keeper rounds, and defer messages", async () => {
  const [first, second, third] = [await oneIn(1, tenants), await oneIn(2, tenants), await oneIn(3, tenants)];
  const { DB_2, DB_3 } = env as unknown as Record<string, D1Database>;
  const swapped = { ...env, DB_2: DB_3, DB_3: DB_2 };
  const bodies = [await envelopeOf(second, "swapped"), await envelopeOf(third, "swapped"), await envelopeOf(first, "swapped")];
  expect(await code(answer(second, "/v1/instances", undefined, swapped))).toBe("config_invalid");
  expect(await code(answer(first, "/healthz", undefined, swapped))).toBe("config_invalid");
  expect(await deliver(bodies, swapped)).toEqual([0, 1]);
  expect([await homesOf(second, "swapped"), await homesOf(third, "swapped"), await homesOf(first, "swapped")]).toEqual([[], [], [1]]);

  const keeper = keeperOf(await cellOf(env, second));
  const set = (given: object) => runInDurableObject(keeper, (object) => void Object.assign(object, { env: inCell(given, 2) }));
  await set(swapped);
  onTestFinished(() => set(env));
  await expect(runInDurableObject(keeper, (object) => object.round())).rejects.toThrow("is the database of the cell 3");
});

it("a database with instances of another deployment does not become a new cell", async () => {
  const tenant = "newcomer";
  const five = { ...env, CELLS: 5, CELLS_OPEN: "5" };
  const { DB_5, DB_4 } = env as unknown as Record<"DB_5" | "DB_4", D1Database>;
  await envelopeOf(await oneIn(4, tenants), "other");
  await DB_4.prepare("DELETE FROM millrace_cells WHERE tenant_id = ''").run();
  onTestFinished(async () => {
    await DB_4.prepare("INSERT INTO millrace_cells (tenant_id, cell) VALUES ('', 4)").run();
    await forgetFifth();
  });
  await expect(cellOf({ ...five, DB_5: DB_4 }, tenant)).rejects.toThrow("contains instances");
  expect((await cellOf(five, tenant)).DB).toBe(DB_5);
});

it("a pause of all tenants holds in a cell that is added later", async () => {
  const tenant = await oneIn(1, tenants);
  const { DB_5 } = env as unknown as { DB_5: D1Database };
  await DB_5.prepare("DELETE FROM millrace_cells").run();
  const body = { reason: "a test", all_tenants: true };
  await ask(tenant, "/v1/workflows/order/pause", body);
  onTestFinished(async () => {
    await ask(tenant, "/v1/workflows/order/resume", body);
    await forgetFifth();
  });
  // Another object, as in a new isolate.
  const DB = new Proxy(DB_5, { get: (of, name) => Reflect.get(of, name).bind?.(of) ?? Reflect.get(of, name) });
  const five = { ...env, CELLS: 5, CELLS_OPEN: "5", DB_5: DB };
  await cellOf(five, "later");
  know("later", await accessTokens.mint(five, { tenantId: "later", actor: "ada", scopes: ["enqueue", "read"] }));
  await ask("later", "/v1/commands", { type: "order", payload: { id: "held" } }, five);
  await keeperRound(await cellOf(five, "later"));
  expect(await rows({ DB: DB_5 }, "SELECT status FROM millrace_instances WHERE tenant_id = 'later'")).toEqual([{ status: "accepted" }]);
  expect(await rows({ DB: DB_5 }, "SELECT id FROM millrace_pauses WHERE resumed_at IS NULL")).toEqual([{ id: "workflow/order/" }]);
});

it("a tenant that a restored directory does not contain keeps its cell", async () => {
  const tenant = await oneIn(3, tenants);
  await order(tenant, "before");
  await isPerformed(tenant, "before");
  await env.DB.prepare("DELETE FROM millrace_cells WHERE tenant_id = ?").bind(tenant).run();
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 61_000 });
  onTestFinished(() => void vi.useRealTimers());
  expect((await cellOf({ ...env, CELLS_OPEN: "1,2,4" }, tenant)).CELL).toBe(3);
});

it("a database that was restored alone is found: tenants in a cell that the directory or the move contradicts", async () => {
  const tenant = await oneIn(2, tenants);
  await order(tenant, "found");
  const second = await cellOf(env, tenant);
  const seen = async () => {
    const all = await Promise.all(cellsOf(env).map((cell) => homes.slice(cell as never, null)));
    return all.flatMap(({ found }) => found.filter(({ tenantId }) => tenantId === tenant).map(({ detail }) => detail));
  };
  const list = (cell: number) => env.DB.prepare("UPDATE millrace_cells SET cell = ? WHERE tenant_id = ?").bind(cell, tenant).run();
  onTestFinished(async () => {
    await list(2);
    await second.DB.prepare("DELETE FROM millrace_moved WHERE tenant_id = ?").bind(tenant).run();
  });
  expect(await seen()).toEqual([]);
  await list(3);
  expect(await seen()).toEqual(["The directory says cell 3, and the cell 2 has its instances."]);
  await second.DB.prepare("INSERT INTO millrace_moved (tenant_id, cell) VALUES (?, 3)").bind(tenant).run();
  expect(await seen()).toEqual([]);
  await list(2);
  expect(await seen()).toEqual(["The directory says cell 2, and the cell 2 has noted its move to the cell 3."]);
});
