import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { query, sql } from "millrace";
import { beforeEach, expect, it } from "vitest";
import { ALERT_RULES } from "../../../packages/millrace/src/alerts/rules.ts";
import { budgetOf } from "../../../src/systems/facts/derived/budgets.ts";
import { appendFacts, ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import { SizeWatch } from "../../../src/systems/facts/object-sizes.ts";
import { gauges } from "../../../src/systems/gauges.ts";
import { callerWith, fresh, until } from "../../api/client.ts";
import { sent } from "./facts.ts";

const GB = 1_000_000_000;
const rowsOf = (tenantId: string) =>
  query<{ binding: string; object_id: string; bytes: number }>(
    env.DB,
    sql`SELECT binding, object_id, bytes FROM object_sizes WHERE tenant_id = ${tenantId} ORDER BY binding`,
  );
beforeEach(async () => void (await query(env.DB, sql`DELETE FROM object_sizes`)));

const gauged = async (binding: string) => (await gauges(env, [])).find(({ labels }) => labels.binding === binding)?.value;

/** An object of any size, with the number of its writes. */
function sized(tenantId: string, db: D1Database = env.DB) {
  const [sqlStorage, writes] = [{ databaseSize: 0 }, [] as Promise<unknown>[]];
  const id = { name: `${tenantId}/account`, toString: () => "f".repeat(64) };
  const watch = new SizeWatch({ id, storage: { sql: sqlStorage }, waitUntil: (one) => void writes.push(one) }, { DB: db }, "LEDGER");
  const at = async (gb: number) => {
    sqlStorage.databaseSize = gb * GB;
    watch.check();
    await Promise.all(writes);
    return writes.length;
  };
  return { at };
}

it("an object below 1 GB writes nothing; above, it writes one row for each further GB, and the gauge reports the largest", async () => {
  const tenantId = fresh("tenant");
  const { at } = sized(tenantId);
  expect(await at(0.4)).toBe(0);
  expect(await at(0.999)).toBe(0);
  expect(await rowsOf(tenantId)).toEqual([]);
  expect([await at(1.2), await at(1.9), await at(1.2)]).toEqual([1, 1, 1]);
  expect([await at(8.25), await at(8.75)]).toEqual([2, 2]);
  expect(await rowsOf(tenantId)).toEqual([{ binding: "LEDGER", object_id: "f".repeat(64), bytes: 8.25 * GB }]);
  expect(await gauged("LEDGER")).toBe(8.25 * GB);
  const rule = ALERT_RULES.find(({ gauge }) => gauge === "object_bytes");
  expect([rule?.warning?.above, rule?.critical?.above]).toEqual([8 * GB, 9.5 * GB]);
  // The record is older than a week, like that of an object that is no longer used.
  await query(env.DB, sql`UPDATE object_sizes SET noted_at = noted_at - ${7 * 86_400_000 + 60_000} WHERE tenant_id = ${tenantId}`);
  expect(await gauged("LEDGER")).toBeUndefined();
});

it("an object's size that the database refuses to store is written at the next check", async () => {
  const tenantId = fresh("tenant");
  const failing = { db: true };
  const db = new Proxy(env.DB, {
    get(target, name) {
      if (failing.db) throw new Error("The database is unavailable.");
      const own = Reflect.get(target, name);
      return typeof own === "function" ? own.bind(target) : own;
    },
  });
  const { at } = sized(tenantId, db);
  expect(await at(2.5)).toBe(1);
  expect(await rowsOf(tenantId)).toEqual([]);
  failing.db = false;
  expect(await at(2.5)).toBe(2);
  expect(await rowsOf(tenantId)).toMatchObject([{ bytes: 2.5 * GB }]);
});

it("a ledger and a budget return their size, and record it when they grow large", async () => {
  const caller = await callerWith(["read"]);
  const entity = fresh("account/");
  const from = { tenant_id: caller.tenantId, trace_id: "a".repeat(32), correlation_id: "c", causation_id: "test" };
  await appendFacts(env, from, [sent(entity)]);
  const { body } = await caller.get(`/v1/ledgers/${encodeURIComponent(entity)}`);
  expect(body.bytes).toBeGreaterThan(4096);
  expect(body.bytes).toBeLessThan(1_000_000);
  const [ledger, budget] = [ledgerOf(env, caller.tenantId, entity), budgetOf(env, caller.tenantId, "shop")];
  expect((await budget.state()).bytes).toBe(0);
  await budget.setLimit(100, "ada");
  expect((await budget.state()).bytes).toBeGreaterThan(4096);
  expect(await rowsOf(caller.tenantId)).toEqual([]);

  const grows = (_: unknown, { storage }: DurableObjectState) => {
    Object.defineProperty(storage.sql, "databaseSize", { value: 9.75 * GB });
  };
  await runInDurableObject(ledger, grows);
  await runInDurableObject(budget, grows);
  await appendFacts(env, from, [sent(entity)]);
  await budget.state();
  const rows = await until(
    () => rowsOf(caller.tenantId),
    ({ length }) => length === 2,
  );
  expect(rows.map(({ binding, bytes }) => [binding, bytes])).toEqual([
    ["BUDGET", 9.75 * GB],
    ["LEDGER", 9.75 * GB],
  ]);
  expect(await gauged("BUDGET")).toBe(9.75 * GB);
});
