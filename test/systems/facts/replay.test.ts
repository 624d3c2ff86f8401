import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { expect, it } from "vitest";
import { budgetOf } from "../../../src/systems/facts/derived/budgets.ts";
import { contactBookOf } from "../../../src/systems/facts/derived/contact-books.ts";
import { type Caller, callerWith, expectProblem, fresh, type Json, reaches, until } from "../../api/client.ts";
import { endpoint, received } from "../webhooks/hook.ts";
import { factsOf } from "./derived.ts";
import { ledger, rebuildOutput, state } from "./facts.ts";

async function replayed(caller: Caller, request = fresh("r")): Promise<Json> {
  const { status, body } = await caller.post("/v1/projections/derived/rebuild", { request });
  expect(status).toBe(202);
  expect(body.instance_id).toBe(ids.instance(caller.tenantId, "rebuild-projection", `derived/${request}`));
  await reaches(caller, body.instance_id, "complete");
  return rebuildOutput(body.instance_id);
}

const outcome = (n: number, account: string) => ({
  fact_id: `sale-${n}`,
  entity: `order/${n}`,
  type: "outcome",
  occurred_at: "2026-10-01T09:30:00Z",
  payload: { account, value_cents: 1000 },
});
const merged = (from: string, into: string) => ({
  fact_id: `m-${from}`,
  entity: "contacts",
  type: "contact_merged",
  occurred_at: "2026-10-01T09:30:00Z",
  payload: { from, into },
});

/** A tenant with an account that has spent 300 cents by three outcomes, a merge, and an endpoint that was notified of the outcomes. */
async function tenant() {
  const caller = await callerWith();
  const account = fresh("account");
  const rules = [{ name: "all", when: [], charge: { cents: 100 } }];
  expect((await caller.call("PUT", "/v1/qualification-rules", { expected_version: 0, rules })).status).toBe(200);
  const hook = await endpoint(caller);
  await state(caller, [...[1, 2, 3].map((n) => outcome(n, account)), merged("ann", "anna")]);
  const budget = async () => (await caller.get(`/v1/budgets/${account}`)).body.spent_cents;
  const contact = async () => (await caller.get("/v1/contacts/ann")).body.canonical_id;
  await until(budget, (spent) => spent === 300);
  await until(contact, (canonical) => canonical === "anna");
  await received(hook.hook, 3);
  await until(
    () => ledger(caller, "order/1"),
    ({ unconfirmed }) => unconfirmed["fact-processing"] === 0,
  );
  return { caller, account, budget, contact, hook };
}

/** Deletes everything that an object stores. */
const wiped = (object: DurableObjectStub) =>
  runInDurableObject(object, async (_, state) => {
    await state.storage.deleteAll();
    // The object wakes with an empty storage.
    state.abort("wiped");
  }).catch(() => undefined);

it("a replay of facts restores lost derived facts: budgets and merged contacts are rebuilt from the ledgers", async () => {
  const { caller, account, budget, contact } = await tenant();
  await wiped(budgetOf(env, caller.tenantId, account) as never);
  await wiped(contactBookOf(env, caller.tenantId) as never);
  expect([await budget(), await contact()]).toEqual([0, "ann"]);
  expect(await replayed(caller)).toEqual({ ledgers: expect.any(Number) });
  expect(await until(budget, (spent) => spent === 300)).toBe(300);
  expect(await until(contact, (canonical) => canonical === "anna")).toBe("anna");
});

it("a replay of facts without a loss adds no charge, no row and no delivery, for any repeats", async () => {
  const { caller, account, budget, hook } = await tenant();
  for (let n = 0; n < 2; n++) await replayed(caller);
  for (const entity of [1, 2, 3].map((n) => `order/${n}`).concat(`account/${account}`))
    await until(
      () => ledger(caller, entity),
      ({ unconfirmed }) => unconfirmed["fact-processing"] === 0,
    );
  expect(await budget()).toBe(300);
  expect(await factsOf(caller.tenantId, `account/${account}`)).toHaveLength(3);
  expect(await received(hook.hook, 3)).toHaveLength(3);
});

it("a replay of facts sends commands that a restored database has lost; deliveries that retention has deleted are not created again", async () => {
  const { caller, hook } = await tenant();
  const deliveries = async () => (await caller.get(`${hook.path}/deliveries`)).body.items as Json[];
  const isOver = (items: Json[]) => items.length === 3 && items.every(({ state }) => state === "sent");
  const [lost, pruned, kept] = (await until(deliveries, isOver)).map(({ id }) => id);
  // Their instances report it before they end.
  for (const id of [lost, pruned, kept]) await reaches(caller, id, "complete");
  await env.DB.batch([
    env.DB.prepare("DELETE FROM webhook_deliveries WHERE id IN (?1, ?2)").bind(lost, pruned),
    env.DB.prepare(
      "INSERT INTO millrace_tombstones (id, fingerprint, place) SELECT unhex(id), unhex(substr(fingerprint, 1, 12)), 1 FROM millrace_instances WHERE id = ?1",
    ).bind(pruned),
    env.DB.prepare("DELETE FROM millrace_instances WHERE id IN (?1, ?2)").bind(lost, pruned),
  ]);
  await replayed(caller);
  const after = await until(deliveries, (items) => items.length >= 2);
  for (const n of [1, 2, 3])
    await until(
      () => ledger(caller, `order/${n}`),
      ({ unconfirmed }) => unconfirmed["fact-processing"] === 0,
    );
  expect((await deliveries()).map(({ id }) => id).toSorted()).toEqual([lost, kept].toSorted());
  expect(after).toHaveLength(2);
});

it("a replay of facts requires the scope operate, also as a command, and is separate from the rebuild of the rows", async () => {
  const caller = await callerWith(["enqueue", "read"]);
  expectProblem(await caller.post("/v1/projections/derived/rebuild", { request: "r" }), 403, "forbidden");
  const command = { type: "projection.rebuild", payload: { projection: "derived", request: "r" } };
  expectProblem(await caller.post("/v1/commands", command), 403, "forbidden");
  const operator = await callerWith();
  await replayed(operator);
  expect((await operator.get("/v1/projections")).body.items[0].rebuild).toBeNull();
});
