import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { BUDGET_LIMITS } from "../../../src/systems/facts/derived/budgets.ts";
import { type Caller, callerWith, expectProblem } from "../../api/client.ts";
import { account } from "./account.ts";
import { chances } from "./derived.ts";

describe("A budget", () => {
  it("a budget without a limit grants nothing, and counts charges", async () => {
    const { ask, charge, state, name } = await account();
    expect(await ask(1)).toEqual({ granted: false, hold: null, expires_at: null, replayed: false, reason: "no_limit", remaining_cents: 0 });
    await charge(300);
    expect(await state()).toEqual({
      account: name,
      limit_cents: null,
      spent_cents: 300,
      held_cents: 0,
      remaining_cents: 0,
      over_cents: 0,
      limit_set_by: null,
      limit_set_at: null,
      bytes: expect.any(Number),
    });
  });

  it("a budget shows the actor and time of its limit, and does not change when the same limit is set again", async () => {
    const { setLimit } = await account();
    const first = (await setLimit(5)).body;
    expect(first).toMatchObject({ limit_set_by: "ada" });
    expect(Math.abs(Date.parse(first.limit_set_at) - Date.now())).toBeLessThan(5_000);
    expect((await setLimit(5)).body).toEqual(first);
  });

  it("a budget grants requests until nothing remains, to the last cent", async () => {
    const { ask, state } = await account(1000);
    expect(await ask(600)).toMatchObject({ granted: true, reason: null, remaining_cents: 400, hold: expect.any(String) });
    expect(await ask(401)).toMatchObject({ granted: false, hold: null, reason: "not_enough", remaining_cents: 400 });
    expect(await ask(400)).toMatchObject({ granted: true, remaining_cents: 0 });
    expect(await ask(1)).toMatchObject({ granted: false, reason: "not_enough" });
    expect(await ask(0)).toMatchObject({ granted: true, remaining_cents: 0 });
    expect(await state()).toMatchObject({ limit_cents: 1000, spent_cents: 0, held_cents: 1000, remaining_cents: 0, over_cents: 0 });
  });

  it("a budget answers a repeated key equally without another hold, and refuses that key with another amount", async () => {
    const { ask, state, caller, path } = await account(1000);
    const first = await ask(700, "k");
    expect(await ask(700, "k")).toEqual({ ...first, replayed: true });
    expect(await ask(700, "k", { expires_in_seconds: 5 })).toEqual({ ...first, replayed: true });
    expect(await state()).toMatchObject({ held_cents: 700 });
    const other = await caller.post(`${path}/asks`, { amount_cents: 1 }, { "idempotency-key": "k" });
    expectProblem(other, 422, "idempotency_key_reused");
    expect(await state()).toMatchObject({ held_cents: 700 });
  });

  it("a budget does not store a refusal: the same key is granted once there is capacity", async () => {
    const { ask, setLimit } = await account(10);
    expect(await ask(11, "k")).toMatchObject({ granted: false });
    await setLimit(11);
    expect(await ask(11, "k")).toMatchObject({ granted: true, replayed: false });
  });

  it("a charge settles the hold with its name: the held amount is spent, and the rest is free again", async () => {
    const { ask, charge, state } = await account(1000);
    const { hold } = await ask(600, "k");
    expect(await charge(450, hold)).toEqual({ acked: 1, retried: 0 });
    expect(await state()).toMatchObject({ spent_cents: 450, held_cents: 0, remaining_cents: 550, over_cents: 0 });
    expect(await ask(600, "k")).toMatchObject({ granted: true, hold, replayed: true, expires_at: null, remaining_cents: 550 });
    expect(await state()).toMatchObject({ held_cents: 0 });
  });

  it("a budget counts a charge once for any repeats, and counts a second charge for the same hold as a charge without a hold", async () => {
    const { ask, charge, state, object } = await account(1000);
    const { hold } = await ask(100);
    for (let time = 0; time < 3; time++) await charge(100, hold, 7);
    await evictDurableObject(object);
    await charge(100, hold, 7);
    expect(await state()).toMatchObject({ spent_cents: 100, held_cents: 0 });
    await charge(50, hold, 8);
    expect(await state()).toMatchObject({ spent_cents: 150, held_cents: 0, remaining_cents: 850 });
  });

  it("a budget distinguishes a thousand charges by their ledgers and positions, in any order", async () => {
    const { object } = await account(0);
    const charges = ["account/a", "elsewhere"].flatMap((entity) =>
      Array.from({ length: 500 }, (_, index) => ({ entity, sequence: index + 1, amount_cents: 1 })),
    );
    const chance = chances(7);
    const twice = [...charges, ...charges].sort(() => chance() - 0.5);
    await Promise.all(twice.map((charge) => object.settle(charge)));
    expect(await object.state()).toMatchObject({ spent_cents: 1000 });
    const { rows } = await runInDurableObject(object, (_, { storage }) =>
      storage.sql.exec<{ rows: number }>("SELECT count(*) AS rows FROM applied").one(),
    );
    expect(rows).toBe(18);
  });

  it("a budget frees an expired hold: its key is a new request then, and its late charge is shown as over the limit", async () => {
    const { ask, charge, state, expire } = await account(1000);
    const first = await ask(1000, "k", { expires_in_seconds: 60 });
    expect(Date.parse(first.expires_at) - Date.now()).toBeGreaterThan(50_000);
    await expire(first.hold);
    expect(await state()).toMatchObject({ held_cents: 0, remaining_cents: 1000 });
    const second = await ask(1000, "k");
    expect(second).toMatchObject({ granted: true, replayed: false });
    expect(second.hold).not.toBe(first.hold);
    await charge(1000, first.hold);
    expect(await state()).toMatchObject({ spent_cents: 1000, held_cents: 1000, remaining_cents: 0, over_cents: 1000 });
    await charge(1000, second.hold);
    expect(await state()).toMatchObject({ spent_cents: 2000, held_cents: 0, remaining_cents: 0, over_cents: 1000 });
    expect(await ask(1)).toMatchObject({ granted: false });
  });

  it("a budget keeps a hold for a day by default, and for at most thirty days", async () => {
    const { ask, caller, path } = await account(1000);
    const day = Date.parse((await ask(1)).expires_at) - Date.now();
    expect(day).toBeGreaterThan(86_390_000);
    expect(day).toBeLessThanOrEqual(86_400_000);
    for (const expires_in_seconds of [0, -1, 1.5, 30 * 86_400 + 1, "60"]) {
      const refused = await caller.post(`${path}/asks`, { amount_cents: 1, expires_in_seconds }, { "idempotency-key": "x" });
      expectProblem(refused, 422, "invalid_payload");
    }
  });

  it("a budget releases a hold once, for the first caller", async () => {
    const { ask, release, charge, state } = await account(1000);
    const { hold } = await ask(400, "k");
    expect(await release(hold)).toEqual({ released: true, state: "released", remaining_cents: 1000 });
    expect(await release(hold)).toEqual({ released: false, state: "released", remaining_cents: 1000 });
    const again = await ask(400, "k");
    expect(again).toMatchObject({ granted: true, replayed: false });
    await charge(400, again.hold);
    expect(await release(again.hold)).toMatchObject({ released: false, state: "settled" });
    expect(await release("nothing")).toMatchObject({ released: false, state: "unknown" });
    expect(await state()).toMatchObject({ spent_cents: 400, held_cents: 0 });
  });

  it("a budget grants nothing after its limit was set below the held and spent amounts, until there is capacity", async () => {
    const { ask, charge, release, state, setLimit } = await account(1000);
    const [one, other] = [await ask(300), await ask(300)];
    await charge(300, one.hold);
    expect((await setLimit(500)).body).toMatchObject({ limit_cents: 500, remaining_cents: 0, over_cents: 100 });
    expect(await ask(1)).toMatchObject({ granted: false, reason: "not_enough", remaining_cents: 0 });
    await release(other.hold);
    expect(await state()).toMatchObject({ remaining_cents: 200, over_cents: 0 });
    expect(await ask(200)).toMatchObject({ granted: true });
    await setLimit(0);
    expect(await state()).toMatchObject({ limit_cents: 0, over_cents: 500 });
  });

  it("a budget counts exactly up to the largest amounts, and leaves a charge that cannot be counted to an operator", async () => {
    const { ask, charge, state, object, setLimit } = await account();
    const { limitCents, askCents } = BUDGET_LIMITS;
    await setLimit(limitCents);
    const asks = Array.from({ length: 1000 }, (_, index) =>
      object.ask({ key: `k${index}`, amount_cents: askCents, expires_in_seconds: 60 }),
    );
    expect((await Promise.all(asks)).filter((answer) => answer?.granted)).toHaveLength(1000);
    expect(await state()).toMatchObject({ held_cents: limitCents, remaining_cents: 0 });
    expect(await ask(1)).toMatchObject({ granted: false });
    await object.settle({ entity: "e", sequence: 1, amount_cents: Number.MAX_SAFE_INTEGER - 1 });
    await object.settle({ entity: "e", sequence: 2, amount_cents: 1 });
    expect(await object.settle({ entity: "e", sequence: 3, amount_cents: 1 })).toBeUndefined();
    expect(await charge(1)).toEqual({ acked: 0, retried: 1 });
    expect(await state()).toMatchObject({ spent_cents: Number.MAX_SAFE_INTEGER });
  });

  it("a budget deletes holds a month after their end, and not before", async () => {
    const { ask, release, age, object } = await account(1000);
    const { hold } = await ask(1, "old");
    await release(hold);
    await age(29 * 86_400_000);
    await ask(1);
    expect((await release(hold)).state).toBe("released");
    await age(2 * 86_400_000);
    await ask(1);
    expect((await release(hold)).state).toBe("unknown");
    const { rows } = await runInDurableObject(object, (_, { storage }) =>
      storage.sql.exec<{ rows: number }>("SELECT count(*) AS rows FROM holds").one(),
    );
    expect(rows).toBeLessThan(4);
  });
});

describe("The endpoints of budgets", () => {
  const refusedBodies: unknown[] = [
    {},
    { limit_cents: -1 },
    { limit_cents: 1.5 },
    { limit_cents: "1" },
    { limit_cents: null },
    { limit_cents: 1e15 + 1 },
    { limit_cents: 1, more: 1 },
    [[]],
  ];
  it.each(refusedBodies)("the endpoints of budgets refuse %j as a limit", async (body) => {
    const caller = await callerWith();
    expectProblem(await caller.call("PUT", "/v1/budgets/a", body), 422, "invalid_payload");
    expect((await caller.get("/v1/budgets/a")).body.limit_cents).toBeNull();
  });

  it.each([
    {},
    { amount_cents: -1 },
    { amount_cents: 0.5 },
    { amount_cents: "5" },
    { amount_cents: 1e12 + 1 },
    { amount_cents: 1, hold: "x" },
  ])("the endpoints of budgets refuse %j as a request", async (body) => {
    const { caller, path, state } = await account(100);
    expectProblem(await caller.post(`${path}/asks`, body, { "idempotency-key": "k" }), 422, "invalid_payload");
    expect(await state()).toMatchObject({ held_cents: 0 });
  });

  it("a request to a budget requires a key", async () => {
    const { caller, path } = await account(100);
    const { issues } = expectProblem(await caller.post(`${path}/asks`, { amount_cents: 1 }), 422, "invalid_payload");
    expect(issues).toMatchObject([{ path: "Idempotency-Key" }]);
  });

  it("the endpoints of budgets accept an account's name unchanged, and refuse an invalid name", async () => {
    const caller = await callerWith();
    const path = `/v1/budgets/${encodeURIComponent("a/../b?x=<b>'")}`;
    expect((await caller.call("PUT", path, { limit_cents: 5 })).body).toMatchObject({ account: "a/../b?x=<b>'", limit_cents: 5 });
    expect((await caller.get("/v1/budgets/b")).body.limit_cents).toBeNull();
    expectProblem(await caller.get(`/v1/budgets/${"x".repeat(191)}`), 422, "invalid_payload");
    expectProblem(await caller.get("/v1/budgets/a%0A"), 422, "invalid_payload");
  });

  it("the endpoints of budgets separate tenants: an account of the same name is another account, and its holds are unknown", async () => {
    const mine = await account(1000);
    const { hold } = await mine.ask(400, "k");
    const other: Caller = await callerWith();
    expect((await other.get(mine.path)).body).toMatchObject({ limit_cents: null, held_cents: 0 });
    expect((await other.call("DELETE", `${mine.path}/holds/${hold}`)).body).toMatchObject({ released: false, state: "unknown" });
    expect(await mine.state()).toMatchObject({ held_cents: 400 });
  });

  it("the endpoints of budgets require the scope for each action", async () => {
    const reader = await callerWith(["read"]);
    expectProblem(await reader.call("PUT", "/v1/budgets/a", { limit_cents: 1 }), 403, "forbidden");
    expectProblem(await reader.post("/v1/budgets/a/asks", { amount_cents: 1 }, { "idempotency-key": "k" }), 403, "forbidden");
    expectProblem(await reader.call("DELETE", "/v1/budgets/a/holds/h"), 403, "forbidden");
    expectProblem(await (await callerWith(["enqueue"])).get("/v1/budgets/a"), 403, "forbidden");
  });
});

it("the id of a hold from a month ago does not name a new hold under the same key", async () => {
  const { caller, path, ask, charge, age, release } = await account(1000);
  const month = { expires_in_seconds: 86_400 };
  const first = await ask(600, "rent", month);
  await charge(100, first.hold);
  // 31 days later, with another request in between, which deletes old ended holds.
  await age(31 * 86_400_000);
  expect((await release((await ask(1, "other", month)).hold)).released).toBe(true);
  const second = await ask(600, "rent", month);
  expect(second).toMatchObject({ granted: true, replayed: false });
  expect(second.hold).not.toBe(first.hold);
  // The first job's late clean-up, and a second charge for its request.
  expect(await release(first.hold)).toMatchObject({ released: false, state: "unknown" });
  await charge(10, first.hold);
  expect((await caller.get(path)).body).toMatchObject({ spent_cents: 110, held_cents: 600 });
});
