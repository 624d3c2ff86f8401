import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { codeOf } from "millrace";
import { describe, expect, it } from "vitest";
import { BUDGET_LIMITS, budgetOf, canSpend } from "../../src/systems/facts/derived/budgets.ts";
import { type Caller, callerWith, expectProblem, fresh, type Json } from "../api/client.ts";
import { howMany } from "../full-size.ts";
import { chances, deliver, recordedFact } from "./derived.ts";

/** A caller with an account that has a limit. */
async function account(limit_cents?: number) {
  const caller = await callerWith();
  const name = fresh("account");
  const path = `/v1/budgets/${name}`;
  const setLimit = (cents: number) => caller.call("PUT", path, { limit_cents: cents });
  if (limit_cents !== undefined) expect((await setLimit(limit_cents)).status).toBe(200);
  const object = budgetOf(env, caller.tenantId, name);
  let charges = 0;
  return {
    caller,
    name,
    path,
    object,
    setLimit,
    state: async () => (await caller.get(path)).body,
    ask: (amount_cents: number, key = fresh("key"), more = {}) =>
      caller.post(`${path}/asks`, { amount_cents, ...more }, { "idempotency-key": key }).then(({ body }) => body),
    release: async (hold: string) => (await caller.call("DELETE", `${path}/holds/${hold}`)).body,
    /** Delivers a charge, as the account's ledger does. */
    charge: (amount_cents: number, hold?: string, sequence = ++charges) => {
      const payload = { account: name, amount_cents, ...(hold && { hold }) };
      return deliver([recordedFact(caller.tenantId, "charge", `c${sequence}`, payload, { entity: `account/${name}`, sequence })]);
    },
    /** Lets a hold's time run out. */
    expire: (hold: string) =>
      runInDurableObject(
        object,
        (_, { storage }) => void storage.sql.exec("UPDATE holds SET until = ? WHERE hold = ?", Date.now() - 1, hold),
      ),
    /** Makes everything older. */
    age: (ms: number) => runInDurableObject(object, (_, { storage }) => void storage.sql.exec("UPDATE holds SET until = until - ?", ms)),
  };
}

describe("A budget", () => {
  it("without a limit grants nothing, and counts what is charged all the same", async () => {
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
    });
  });

  it("says who set its limit, and when; set to what it is, nothing changes", async () => {
    const { setLimit } = await account();
    const first = (await setLimit(5)).body;
    expect(first).toMatchObject({ limit_set_by: "ada" });
    expect(Math.abs(Date.parse(first.limit_set_at) - Date.now())).toBeLessThan(5_000);
    expect((await setLimit(5)).body).toEqual(first);
  });

  it("grants until nothing is left, to the last cent", async () => {
    const { ask, state } = await account(1000);
    expect(await ask(600)).toMatchObject({ granted: true, reason: null, remaining_cents: 400, hold: expect.any(String) });
    expect(await ask(401)).toMatchObject({ granted: false, hold: null, reason: "not_enough", remaining_cents: 400 });
    expect(await ask(400)).toMatchObject({ granted: true, remaining_cents: 0 });
    expect(await ask(1)).toMatchObject({ granted: false, reason: "not_enough" });
    expect(await ask(0)).toMatchObject({ granted: true, remaining_cents: 0 });
    expect(await state()).toMatchObject({ limit_cents: 1000, spent_cents: 0, held_cents: 1000, remaining_cents: 0, over_cents: 0 });
  });

  it("answers the same key the same, and holds nothing more; the same key with another amount is refused", async () => {
    const { ask, state, caller, path } = await account(1000);
    const first = await ask(700, "k");
    expect(await ask(700, "k")).toEqual({ ...first, replayed: true });
    expect(await ask(700, "k", { expires_in_seconds: 5 })).toEqual({ ...first, replayed: true });
    expect(await state()).toMatchObject({ held_cents: 700 });
    const other = await caller.post(`${path}/asks`, { amount_cents: 1 }, { "idempotency-key": "k" });
    expectProblem(other, 422, "idempotency_key_reused");
    expect(await state()).toMatchObject({ held_cents: 700 });
  });

  it("forgets a refusal: the same key is granted when there is room", async () => {
    const { ask, setLimit } = await account(10);
    expect(await ask(11, "k")).toMatchObject({ granted: false });
    await setLimit(11);
    expect(await ask(11, "k")).toMatchObject({ granted: true, replayed: false });
  });

  it("a charge with the hold's name settles it: what was held is spent, and a rest is free again", async () => {
    const { ask, charge, state } = await account(1000);
    const { hold } = await ask(600, "k");
    expect(await charge(450, hold)).toEqual({ acked: 1, retried: 0 });
    expect(await state()).toMatchObject({ spent_cents: 450, held_cents: 0, remaining_cents: 550, over_cents: 0 });
    expect(await ask(600, "k")).toMatchObject({ granted: true, hold, replayed: true, expires_at: null, remaining_cents: 550 });
    expect(await state()).toMatchObject({ held_cents: 0 });
  });

  it("counts a charge once, however often it comes, and a second charge for the same hold as one without", async () => {
    const { ask, charge, state, object } = await account(1000);
    const { hold } = await ask(100);
    for (let time = 0; time < 3; time++) await charge(100, hold, 7);
    await evictDurableObject(object);
    await charge(100, hold, 7);
    expect(await state()).toMatchObject({ spent_cents: 100, held_cents: 0 });
    await charge(50, hold, 8);
    expect(await state()).toMatchObject({ spent_cents: 150, held_cents: 0, remaining_cents: 850 });
  });

  it("tells a thousand charges of several ledgers apart by their places, in any order", async () => {
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

  it("a hold that expires makes room; its key is a new ask then, and its late charge shows as over", async () => {
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

  it("a hold lasts a day by default, and thirty at most", async () => {
    const { ask, caller, path } = await account(1000);
    const day = Date.parse((await ask(1)).expires_at) - Date.now();
    expect(day).toBeGreaterThan(86_390_000);
    expect(day).toBeLessThanOrEqual(86_400_000);
    for (const expires_in_seconds of [0, -1, 1.5, 30 * 86_400 + 1, "60"]) {
      const refused = await caller.post(`${path}/asks`, { amount_cents: 1, expires_in_seconds }, { "idempotency-key": "x" });
      expectProblem(refused, 422, "invalid_payload");
    }
  });

  it("a hold is given back once, by whoever asks first", async () => {
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

  it("a limit lowered under what is held and spent grants nothing until there is room", async () => {
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

  it("counts exactly up to the largest amounts, and leaves a charge that cannot be counted to a person", async () => {
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

  it("forgets holds a month after they ended, and not before", async () => {
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

describe("Thousands of asks at once", () => {
  const ASKS = howMany(3_000, 10_000);
  const WAVE = ASKS / 4;
  const LIMIT = 15 * ASKS;

  it("oversell nothing: a hot account and quiet ones, keys that come twice, charges in between, the object evicted in the middle", {
    timeout: 90_000,
  }, async () => {
    const tenantId = fresh("tenant");
    const chance = chances(10_000);
    const accounts = ["hot", "quiet-1", "quiet-2", "quiet-3"];
    for (const name of accounts) await budgetOf(env, tenantId, name).setLimit(LIMIT, "ada");
    const asks = Array.from({ length: ASKS }, (_, index) => {
      const name = chance() < 0.7 ? "hot" : (accounts[1 + Math.floor(chance() * 3)] as string);
      // One in five repeats an earlier key, with the amount it had.
      const key = chance() < 0.2 ? Math.floor(chance() * (index + 1)) : index;
      return { name, key: `key-${key}`, amount_cents: 1 + ((key * 7919) % 97) };
    });

    const granted = new Map(accounts.map((name) => [name, new Map<string, number>()]));
    let [answers, replays, charged, places] = [0, 0, 0, 0];
    const one = async ({ name, key, amount_cents }: (typeof asks)[number]): Promise<void> => {
      const ask = () => canSpend(env, tenantId, name, { key, amount_cents, expires_in_seconds: 3600 });
      // If the object goes away under the ask, nobody knows what became of it: the same key is asked again.
      const answer = await ask().catch(ask);
      answers++;
      if (answer.replayed) replays++;
      if (!answer.granted || !answer.hold) return;
      granted.get(name)?.set(key, amount_cents);
      if (answer.replayed || ++places % 3 !== 0) return;
      charged += amount_cents;
      const charge = { entity: "e", sequence: places, amount_cents, hold: answer.hold };
      const settle = () => budgetOf(env, tenantId, name).settle(charge);
      await settle().catch(settle);
    };
    for (let at = 0; at < ASKS; at += WAVE) {
      const wave = Promise.all(asks.slice(at, at + WAVE).map(one));
      if (at > 0) await evictDurableObject(budgetOf(env, tenantId, "hot"));
      await wave;
    }

    expect(answers).toBe(ASKS);
    expect(replays).toBeGreaterThan(100);
    let spent = 0;
    for (const name of accounts) {
      const total = [...(granted.get(name)?.values() ?? [])].reduce((sum, cents) => sum + cents, 0);
      const state = await budgetOf(env, tenantId, name).state();
      expect(total, name).toBeLessThanOrEqual(LIMIT);
      expect(state.spent_cents + state.held_cents, name).toBe(total);
      expect(state, name).toMatchObject({ remaining_cents: LIMIT - total, over_cents: 0 });
      spent += state.spent_cents;
    }
    expect(spent).toBe(charged);
    // The hot account was asked for more than it has, and gave all that an ask could still take.
    expect((await budgetOf(env, tenantId, "hot").state()).remaining_cents).toBeLessThan(97);
  });

  it("oversell nothing when the object dies under them: whoever got no answer asks again", { timeout: 60_000 }, async () => {
    const tenantId = fresh("tenant");
    const limit = 20_000;
    await budgetOf(env, tenantId, "hot").setLimit(limit, "ada");
    const granted = new Map<string, number>();
    let [lost, over] = [0, 0];
    const unlessRefused = (error: unknown) => (codeOf(error) ? Promise.reject(error) : undefined);
    const one = async (index: number): Promise<void> => {
      const [key, amount_cents] = [`key-${index % 1500}`, 1 + ((index % 1500) % 37)];
      for (;;) {
        const answer = await canSpend(env, tenantId, "hot", { key, amount_cents, expires_in_seconds: 3600 }).catch(unlessRefused);
        if (!answer) lost++;
        else if (!answer.granted) return;
        else return void granted.set(key, amount_cents);
      }
    };
    for (let wave = 0; wave < 4; wave++) {
      const asking = Promise.all(Array.from({ length: 500 }, (_, index) => one(wave * 500 + index)));
      await runInDurableObject(budgetOf(env, tenantId, "hot"), (_, state) => state.abort("It died.")).catch(() => undefined);
      await asking;
      const { held_cents } = await budgetOf(env, tenantId, "hot").state();
      over = Math.max(over, held_cents - limit);
    }
    const total = [...granted.values()].reduce((sum, cents) => sum + cents, 0);
    expect(await budgetOf(env, tenantId, "hot").state()).toMatchObject({ held_cents: total, over_cents: 0 });
    expect(over).toBeLessThanOrEqual(0);
    expect(limit - total).toBeLessThan(37);
    expect(lost).toBeGreaterThan(0);
  });

  it("1,000 of them over HTTP, for one account: exactly as many are granted as there is room for", async () => {
    const { ask, state } = await account(2_500);
    const answers: Json[] = await Promise.all(Array.from({ length: 1000 }, (_, index) => ask(10, `key-${index % 500}`)));
    const holds = new Set(answers.flatMap(({ granted, hold }) => (granted ? [hold] : [])));
    expect(holds.size).toBe(250);
    expect(await state()).toMatchObject({ held_cents: 2_500, remaining_cents: 0, over_cents: 0 });
  });
});

describe("The budgets' door", () => {
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
  it.each(refusedBodies)("refuses %j as a limit", async (body) => {
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
  ])("refuses %j as an ask", async (body) => {
    const { caller, path, state } = await account(100);
    expectProblem(await caller.post(`${path}/asks`, body, { "idempotency-key": "k" }), 422, "invalid_payload");
    expect(await state()).toMatchObject({ held_cents: 0 });
  });

  it("wants a key", async () => {
    const { caller, path } = await account(100);
    const { issues } = expectProblem(await caller.post(`${path}/asks`, { amount_cents: 1 }), 422, "invalid_payload");
    expect(issues).toMatchObject([{ path: "Idempotency-Key" }]);
  });

  it("takes an account's name as it is, and refuses what is none", async () => {
    const caller = await callerWith();
    const path = `/v1/budgets/${encodeURIComponent("a/../b?x=<b>'")}`;
    expect((await caller.call("PUT", path, { limit_cents: 5 })).body).toMatchObject({ account: "a/../b?x=<b>'", limit_cents: 5 });
    expect((await caller.get("/v1/budgets/b")).body.limit_cents).toBeNull();
    expectProblem(await caller.get(`/v1/budgets/${"x".repeat(191)}`), 422, "invalid_payload");
    expectProblem(await caller.get("/v1/budgets/a%0A"), 422, "invalid_payload");
  });

  it("another tenant's account of the same name is another account, and its holds are unknown", async () => {
    const mine = await account(1000);
    const { hold } = await mine.ask(400, "k");
    const other: Caller = await callerWith();
    expect((await other.get(mine.path)).body).toMatchObject({ limit_cents: null, held_cents: 0 });
    expect((await other.call("DELETE", `${mine.path}/holds/${hold}`)).body).toMatchObject({ released: false, state: "unknown" });
    expect(await mine.state()).toMatchObject({ held_cents: 400 });
  });

  it("asks for the scope that each thing needs", async () => {
    const reader = await callerWith(["read"]);
    expectProblem(await reader.call("PUT", "/v1/budgets/a", { limit_cents: 1 }), 403, "forbidden");
    expectProblem(await reader.post("/v1/budgets/a/asks", { amount_cents: 1 }, { "idempotency-key": "k" }), 403, "forbidden");
    expectProblem(await reader.call("DELETE", "/v1/budgets/a/holds/h"), 403, "forbidden");
    expectProblem(await (await callerWith(["enqueue"])).get("/v1/budgets/a"), 403, "forbidden");
  });
});

it("a hold of a month ago names nothing that is held today", async () => {
  const { caller, path, ask, charge, age, release } = await account(1000);
  const month = { expires_in_seconds: 86_400 };
  const first = await ask(600, "rent", month);
  await charge(100, first.hold);
  // 31 days later, with another ask in between, which makes forgotten what ended long ago.
  await age(31 * 86_400_000);
  expect((await release((await ask(1, "other", month)).hold)).released).toBe(true);
  const second = await ask(600, "rent", month);
  expect(second).toMatchObject({ granted: true, replayed: false });
  expect(second.hold).not.toBe(first.hold);
  // The first job's late clean-up, and a second charge of its wish.
  expect(await release(first.hold)).toMatchObject({ released: false, state: "unknown" });
  await charge(10, first.hold);
  expect((await caller.get(path)).body).toMatchObject({ spent_cents: 110, held_cents: 600 });
});
