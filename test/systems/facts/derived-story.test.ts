import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import type { RecordedFact } from "../../../src/messages/fact.ts";
import { budgetOf } from "../../../src/systems/facts/derived/budgets.ts";
import { resolveContacts } from "../../../src/systems/facts/derived/contact-books.ts";
import { ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import { fresh, until } from "../../api/client.ts";
import { howMany } from "../../full-size.ts";
import { chances, deliver, deliverByHand, deliverMessages, factsOf, messageOf, recordedFact, seedRules } from "./derived.ts";
import { charges, deliverAnyhow, followed, TOGETHER, told } from "./story.ts";

it("facts that are delivered in shuffled orders, each twice, end in the same state as facts that are delivered in order and once", {
  timeout: 120_000,
}, async () => {
  const plain = fresh("tenant");
  const tenants = new Set([plain]);
  deliverByHand(tenants);
  for (const fact of await told(plain)) expect(await deliver([fact])).toEqual({ acked: 1, retried: 0 });
  for (const charge of await charges(plain)) await deliver([charge]);
  const expected = await followed(plain);

  // The expected result of the scenario, computed by hand.
  expect(
    expected.facts
      .map(({ type, payload }) => [
        type,
        (payload as { outcome_id: string }).outcome_id,
        (payload as { amount_cents: number }).amount_cents,
      ])
      .sort(),
  ).toEqual([
    ["charge", "o1", 500],
    ["charge", "o2", 2_000],
    ["charge", "o3", 50],
    ["charge", "o5", 30],
    ["charge", "o8", 2_000],
    ["payout", "o1", 100],
    ["payout", "o2", 10_000],
    ["payout", "o3", 100],
    ["payout", "o8", 100_000],
  ]);
  expect(expected.budgets).toMatchObject([
    { limit_cents: 20_000, spent_cents: 2_591, held_cents: 0, remaining_cents: 17_409, over_cents: 0, limit_set_by: "ada" },
    { limit_cents: 20_000, spent_cents: 2_022, held_cents: 700, remaining_cents: 17_278, over_cents: 0, limit_set_by: "ada" },
  ]);
  expect(expected.contacts).toEqual({ c1: "c3", c2: "c3", c3: "c3", c4: "c3", c5: "c7", c6: "c7", c7: "c7" });

  const play = async (seed: number) => {
    const tenantId = fresh("tenant");
    tenants.add(tenantId);
    await deliverAnyhow(tenantId, await told(tenantId), chances(seed));
    expect(await followed(tenantId), `seed ${seed}`).toEqual(expected);
  };
  for (let first = 1; first <= howMany(10, 50); first += TOGETHER) {
    await Promise.all(Array.from({ length: TOGETHER }, (_, index) => play(first + index)));
  }
});

it("derived facts contain their owner, their cause and their time", async () => {
  const tenantId = fresh("tenant");
  await seedRules(tenantId, 1, 0, [{ name: "all", when: [], charge: { cents: 7 }, payout: { cents: 3 } }]);
  const cause = recordedFact(
    tenantId,
    "outcome",
    "o1",
    { account: "a1", partner: "p1", value_cents: 1 },
    { correlation_id: "order-1", trace_id: "b".repeat(32) },
  );
  await deliver([cause]);
  for (const [entity, type] of [["account/a1", "charge"] as const, ["partner/p1", "payout"] as const]) {
    expect(await factsOf(tenantId, entity)).toMatchObject([
      {
        type,
        tenant_id: tenantId,
        correlation_id: "order-1",
        trace_id: "b".repeat(32),
        causation_id: "outcome/o1/o1",
        occurred_at: cause.occurred_at,
        payload: { outcome_id: "o1", decided_by: { version: 1, rule: "all" } },
      },
    ]);
  }
});

it("a charge that its ledger has reported is counted without a request to the engine", async () => {
  const tenantId = fresh("tenant");
  await seedRules(tenantId, 1, 0, [{ name: "all", when: [], charge: { cents: 7 } }]);
  await deliver([recordedFact(tenantId, "outcome", "o1", { account: "a1", value_cents: 1 })]);
  await expect.poll(async () => (await budgetOf(env, tenantId, "a1").state()).spent_cents, { timeout: 45_000 }).toBe(7);
});

it.each(["account/a1", "partner/p1"])(
  "a crash before %s is written is repaired at the next delivery, also when the rules have changed",
  async (broken) => {
    const tenantId = fresh("tenant");
    await seedRules(tenantId, 1, 0, [{ name: "all", when: [], charge: { cents: 7 }, payout: { cents: 3 } }]);
    const cause = recordedFact(tenantId, "outcome", "o1", { account: "a1", partner: "p1", value_cents: 1 });
    const lost = env.LEDGER.idFromName(`${tenantId}/${broken}`);
    const LEDGER = {
      idFromName: (name: string) => env.LEDGER.idFromName(name),
      get: (id: DurableObjectId) => (id.equals(lost) ? { append: () => Promise.reject(new Error("It died.")) } : env.LEDGER.get(id)),
    };
    const dying = { ...env, LEDGER: LEDGER as unknown as typeof env.LEDGER };
    for (let time = 0; time < 2; time++) expect(await deliver([cause], dying)).toEqual({ acked: 0, retried: 1 });
    const written = async () => [await factsOf(tenantId, "account/a1"), await factsOf(tenantId, "partner/p1")].map(({ length }) => length);
    expect((await written()).sort()).toEqual([0, 1]);

    await seedRules(tenantId, 2, Date.now() + 1, [{ name: "new", when: [], charge: { cents: 70 }, payout: { cents: 30 } }]);
    for (let time = 0; time < 2; time++) expect(await deliver([cause])).toEqual({ acked: 1, retried: 0 });
    expect(await written()).toEqual([1, 1]);
    expect(await factsOf(tenantId, "partner/p1")).toMatchObject([{ payload: { amount_cents: 3, decided_by: { version: 1 } } }]);
  },
);

it("a name in the account's ledger that another caller has used is reported as an error", async () => {
  const tenantId = fresh("tenant");
  await seedRules(tenantId, 1, 0, [{ name: "all", when: [], charge: { cents: 7 } }]);
  const cause = recordedFact(tenantId, "outcome", "o1", { account: "a1", value_cents: 1 });
  await deliver([cause]);
  const [charge] = await factsOf(tenantId, "account/a1");
  const taken = { ...charge, entity: "account/a2", payload: { account: "a2", amount_cents: 1 } } as RecordedFact;
  const { tenant_id, trace_id, correlation_id, causation_id } = taken;
  const { fact_id, entity, type, occurred_at, payload } = taken;
  await ledgerOf(env, tenantId, entity).append({ tenant_id, trace_id, correlation_id, causation_id }, [
    { fact_id, entity, type, occurred_at, payload } as never,
  ]);
  // The same outcome with another account: its charge would have a name that the account's ledger already has.
  const forged = { ...cause, payload: { ...cause.payload, account: "a2" } } as RecordedFact;
  expect(await deliver([forged])).toEqual({ acked: 1, retried: 0 });
  expect(await factsOf(tenantId, "account/a2")).toHaveLength(1);
  const { results } = await env.DB.prepare("SELECT reason FROM millrace_dead_letters WHERE tenant_id = ?1").bind(tenantId).all();
  expect(results).toEqual([{ reason: "idempotency_key_reused" }]);
});

it("a derived fact has its cause in whole characters, for an outcome's name of any length", async () => {
  const tenantId = fresh("tenant");
  await seedRules(tenantId, 1, 0, [{ name: "all", when: [], charge: { cents: 7 } }]);
  const entity = `order/${"x".repeat(194)}`;
  const name = "a".repeat(98);
  await deliver([recordedFact(tenantId, "outcome", `${name}😀😀`, { account: "a1", value_cents: 1 }, { entity })]);
  const [charge] = await factsOf(tenantId, "account/a1");
  expect(charge?.causation_id.length).toBe(`${entity}/${name}`.length);
  expect(
    await until(
      async () => (await budgetOf(env, tenantId, "a1").state()).spent_cents,
      (spent) => spent === 7,
    ),
  ).toBe(7);
});

it("an outcome that cannot be decided delays no other of its batch", async () => {
  const [broken, well] = [fresh("tenant"), fresh("tenant")];
  const rules = [{ name: "all", when: [], charge: { cents: 7 } }];
  await seedRules(well, 1, 0, rules);
  // A version that an older deployment could have written, with an unknown form.
  await seedRules(broken, 1, 0, [{ name: "all", when: null }]);
  const outcomes = [broken, well].map((tenantId) => recordedFact(tenantId, "outcome", "o1", { account: "a1", value_cents: 1 }));
  expect(await deliver(outcomes)).toEqual({ acked: 1, retried: 1 });
  expect(await factsOf(well, "account/a1")).toHaveLength(1);
});

it("the rules are read once for each tenant of a batch", async () => {
  const tenants = [fresh("tenant"), fresh("tenant")];
  for (const tenantId of tenants) await seedRules(tenantId, 1, 0, [{ name: "all", when: [], charge: { cents: 7 } }]);
  const outcomes = Array.from({ length: 50 }, (_, index) =>
    recordedFact(tenants[index % 2] ?? "", "outcome", `o${index}`, { account: `a${index}`, value_cents: 1 }),
  );
  let reads = 0;
  const DB = {
    prepare(text: string) {
      if (text.includes("qualification_rules")) reads++;
      return env.DB.prepare(text);
    },
    batch: (statements: D1PreparedStatement[]) => env.DB.batch(statements),
  };
  expect(await deliver(outcomes, { ...env, DB: DB as unknown as D1Database })).toEqual({ acked: 50, retried: 0 });
  expect(reads).toBe(2);
  expect(await factsOf(tenants[1] ?? "", "account/a49")).toHaveLength(1);
});

it("T01 a fact that contains another tenant than its message is a dead letter, and has no consequence for either tenant", async () => {
  const [mine, theirs] = [fresh("tenant"), fresh("tenant")];
  await seedRules(mine, 1, 0, [{ name: "mine", when: [], charge: { cents: 7 } }]);
  await seedRules(theirs, 1, 0, [{ name: "theirs", when: [], charge: { cents: 9 } }]);
  const forged = async (fact: RecordedFact) => ({ ...(await messageOf(fact)), payload_inline: { ...fact, tenant_id: theirs } });
  const messages = await Promise.all([
    forged(recordedFact(mine, "outcome", "o1", { account: "a1", value_cents: 1 })),
    forged(recordedFact(mine, "charge", "c1", { account: "a2", amount_cents: 5 })),
    forged(recordedFact(mine, "contact_merged", "m1", { from: "x", into: "y" })),
    forged(recordedFact(mine, "payout", "p1", { partner: "p1", amount_cents: 5 })),
  ]);
  expect(await deliverMessages(messages)).toEqual({ acked: 4, retried: 0 });
  const letters = await env.DB.prepare("SELECT reason FROM millrace_dead_letters WHERE tenant_id = ?").bind(mine).all();
  expect(letters.results).toEqual(messages.map(() => ({ reason: "invalid_payload" })));
  for (const tenantId of [mine, theirs]) {
    expect(await factsOf(tenantId, "account/a1")).toEqual([]);
    expect((await budgetOf(env, tenantId, "a2").state()).spent_cents).toBe(0);
    expect(Object.fromEntries(await resolveContacts(env, tenantId, ["x"]))).toEqual({ x: "x" });
  }
});

it.each([
  ["an amount below zero", { account: "a1", value_cents: -1 }],
  ["half a cent", { account: "a1", value_cents: 0.5 }],
  ["no account", { value_cents: 1 }],
  ["an account with a ledger of invalid name", { account: "x".repeat(191), value_cents: 1 }],
])("an outcome with %s becomes a dead letter at once with the reason, and causes no fact", async (_, payload) => {
  const tenantId = fresh("tenant");
  await seedRules(tenantId, 1, 0, [{ name: "all", when: [], charge: { cents: 7 } }]);
  const well = recordedFact(tenantId, "outcome", "o1", { account: "a1", value_cents: 1 });
  const message = { ...(await messageOf(well)), payload_inline: { ...well, payload } };
  const settled = await deliverMessages([
    message as never,
    await messageOf(recordedFact(tenantId, "outcome", "o2", { account: "a1", value_cents: 1 })),
  ]);
  expect(settled).toEqual({ acked: 2, retried: 0 });
  const letters = await env.DB.prepare("SELECT reason FROM millrace_dead_letters WHERE tenant_id = ?").bind(tenantId).all();
  expect(letters.results).toEqual([{ reason: "invalid_payload" }]);
  expect(await factsOf(tenantId, "account/a1")).toMatchObject([{ payload: { outcome_id: "o2" } }]);
});
