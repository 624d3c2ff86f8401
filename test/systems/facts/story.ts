import { env } from "cloudflare:workers";
import { expect } from "vitest";
import type { RecordedFact } from "../../../src/messages/fact.ts";
import { budgetOf, canSpend } from "../../../src/systems/facts/derived/budgets.ts";
import { resolveContacts } from "../../../src/systems/facts/derived/contact-books.ts";
import { deliver, factsOf, recordedFact, seedRules, shuffled } from "./derived.ts";

const ACCOUNTS = ["a1", "a2"];
const PARTNERS = ["p1", "p2"];
const CONTACTS = ["c1", "c2", "c3", "c4", "c5", "c6", "c7"];
/** The number of orders that are tested concurrently. */
export const TOGETHER = 10;
const RECORDED_AT = "2026-10-02T00:00:00.000Z";

const RULES = [
  { name: "refund", when: [{ field: "subtype", op: "is", value: "refund" }] },
  {
    name: "large",
    when: [{ field: "value_cents", op: "at_least", value: 50_000 }],
    charge: { percent: 2.5, max: 2_000 },
    payout: { percent: 10 },
  },
  {
    name: "partner sale",
    when: [{ field: "partner", op: "exists", value: true }],
    charge: { percent: 5, min: 50 },
    payout: { cents: 100 },
  },
  { name: "trial", when: [{ field: "payload.plan", op: "is", value: "trial" }], payout: { cents: 1 } },
  { name: "rest", when: [{ field: "account", op: "in", value: ACCOUNTS }], charge: { cents: 30 } },
];

/** The events of the scenario: outcomes of every kind, holds, charges published by hand, merges in a chain, a star and a circle. */
export async function told(tenantId: string): Promise<RecordedFact[]> {
  await seedRules(tenantId, 1, 0, RULES);
  for (const account of ACCOUNTS) await budgetOf(env, tenantId, account).setLimit(20_000, "ada");
  const { hold } = await canSpend(env, tenantId, "a1", { key: "order-1", amount_cents: 5_000, expires_in_seconds: 3600 });
  await canSpend(env, tenantId, "a2", { key: "never charged", amount_cents: 700, expires_in_seconds: 3600 });
  const minute = (count: number) => ({
    occurred_at: new Date(Date.parse(RECORDED_AT) + count * 60_000).toISOString(),
    recorded_at: RECORDED_AT,
  });
  const outcome = (index: number, payload: object, subtype = "sale") =>
    recordedFact(tenantId, "outcome", `o${index}`, { account: "a1", value_cents: 10_000, ...payload }, { ...minute(index), subtype });
  const merged = (index: number, from: string, into: string) =>
    recordedFact(tenantId, "contact_merged", `m${index}`, { from, into }, minute(index));
  const stated = (index: number, account: string) =>
    recordedFact(
      tenantId,
      "charge",
      `by-hand-${index}`,
      { account, amount_cents: 11 * index },
      { ...minute(index), entity: "by-hand", sequence: index },
    );
  return [
    outcome(1, { partner: "p1", hold: hold ?? "" }),
    outcome(2, { value_cents: 99_999, partner: "p2", account: "a2" }),
    outcome(3, { value_cents: 1, partner: "p1" }),
    outcome(4, { plan: "trial", account: "a2" }),
    outcome(5, {}),
    outcome(6, { account: "nobody's" }),
    outcome(7, { partner: "p1" }, "refund"),
    outcome(8, { value_cents: 1_000_000, partner: "p1" }),
    ...[stated(1, "a1"), stated(2, "a2")],
    ...[
      merged(1, "c1", "c2"),
      merged(2, "c2", "c3"),
      merged(3, "c4", "c3"),
      merged(4, "c5", "c6"),
      merged(5, "c6", "c7"),
      merged(6, "c7", "c5"),
    ],
  ];
}

/** All resulting facts. */
export async function followed(tenantId: string) {
  const entities = [...ACCOUNTS.map((one) => `account/${one}`), ...PARTNERS.map((one) => `partner/${one}`), "account/nobody's"];
  const facts = (await Promise.all(entities.map((entity) => factsOf(tenantId, entity)))).flat();
  const what = facts
    .map(({ tenant_id: _, sequence: __, recorded_at: ___, traceparent: ____, ...fact }) => fact)
    .sort((a, b) => (a.fact_id < b.fact_id ? -1 : 1));
  const states = await Promise.all(ACCOUNTS.map((account) => budgetOf(env, tenantId, account).state()));
  const budgets = states.map(({ limit_set_at: _, bytes: __, ...state }) => state);
  return { facts: what, budgets, contacts: Object.fromEntries(await resolveContacts(env, tenantId, CONTACTS)) };
}

export function charges(tenantId: string): Promise<RecordedFact[]> {
  return Promise.all(ACCOUNTS.map((account) => factsOf(tenantId, `account/${account}`))).then((lists) => lists.flat());
}

/** Delivers a scenario in small batches; derived messages are delivered among the others, and each delivery comes twice. */
export async function deliverAnyhow(tenantId: string, facts: readonly RecordedFact[], chance: () => number): Promise<void> {
  const waiting = shuffled([...facts, ...facts], chance);
  const known = new Set<string>();
  while (waiting.length > 0) {
    const settled = await deliver(waiting.splice(0, 1 + Math.floor(chance() * 7)));
    expect(settled.retried).toBe(0);
    for (const charge of await charges(tenantId)) {
      if (known.has(charge.fact_id)) continue;
      known.add(charge.fact_id);
      for (let time = 0; time < 2; time++) waiting.splice(Math.floor(chance() * (waiting.length + 1)), 0, charge);
    }
  }
}
