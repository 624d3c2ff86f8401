import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { FactPayload, RecordedFact } from "../../../src/messages/fact.ts";
import { decide, derivedFacts, type Judged } from "../../../src/systems/facts/decide.ts";
import { type Rule, rulesSchema } from "../../../src/systems/facts/rules.ts";
import { recordedFact } from "./derived.ts";

function judged(payload: Partial<FactPayload<"outcome">> = {}, subtype?: string): Judged {
  return { subtype, payload: { account: "a1", partner: "p1", value_cents: 10_000, ...payload } };
}

/** Rules with one rule that charges a cent when this condition holds. */
function when(field: string, op: string, value: unknown): Rule[] {
  return rulesSchema.parse([{ name: "it", when: [{ field, op, value }], charge: { cents: 1 } }]);
}

describe("A condition", () => {
  const outcome = judged({ plan: { name: "pro", seats: 7, trial: null, tags: ["a"] } }, "sale");
  it.each([
    ["subtype", "is", "sale", true],
    ["subtype", "is", "lead", false],
    ["subtype", "in", ["lead", "sale"], true],
    ["account", "is", "a1", true],
    ["partner", "exists", true, true],
    ["value_cents", "at_least", 10_000, true],
    ["value_cents", "at_least", 10_001, false],
    ["value_cents", "at_most", 10_000, true],
    ["value_cents", "at_most", 9_999, false],
    ["value_cents", "is", 10_000, true],
    ["payload.plan.name", "is", "pro", true],
    ["payload.plan.seats", "at_most", 7, true],
    ["payload.plan.seats", "is", "7", false],
    ["payload.plan.name", "at_least", 0, false],
    ["payload.plan.trial", "is", null, true],
    ["payload.plan.trial", "exists", true, true],
    ["payload.plan.trial.more", "exists", false, true],
    ["payload.plan.missing", "exists", false, true],
    ["payload.plan.missing", "is", null, false],
    ["payload.plan.tags.0", "exists", false, true],
    ["payload.plan.tags.length", "exists", false, true],
    ["payload.toString", "exists", false, true],
    ["payload.constructor.name", "exists", false, true],
    ["payload.__proto__", "exists", false, true],
  ])("the condition %s %s %j is %s", (field, op, value, expected) => {
    expect(decide(when(field, op, value), outcome) !== undefined).toBe(expected);
  });

  it("a condition on a missing field of an outcome is false, except `exists: false`", () => {
    const bare: Judged = { payload: { account: "a1", value_cents: 1 } };
    expect(decide(when("partner", "is", "p1"), bare)).toBeUndefined();
    expect(decide(when("subtype", "in", ["sale"]), bare)).toBeUndefined();
    expect(decide(when("subtype", "exists", false), bare)).toBeDefined();
  });
});

describe("An amount", () => {
  const charge = (amount: object, value_cents: number) =>
    decide(rulesSchema.parse([{ name: "all", when: [], charge: amount }]), judged({ value_cents }))?.charge_cents;

  it.each([
    [{ cents: 250 }, 99_999, 250],
    [{ percent: 10 }, 12_345, 1_235],
    [{ percent: 10 }, 12_344, 1_234],
    [{ percent: 50 }, 1, 1],
    [{ percent: 49.9999 }, 1, 0],
    [{ percent: 0 }, 500, 0],
    [{ percent: 100 }, 1_000_000_000_000, 1_000_000_000_000],
    [{ percent: 33.3333 }, 1_000_000_000_000, 333_333_000_000],
    [{ percent: 10, min: 500 }, 1_000, 500],
    [{ percent: 10, max: 50 }, 1_000, 50],
    [{ percent: 2.675 }, 100_00, 268],
    [{ percent: 1.005 }, 100_000, 1_005],
  ])("an amount of %j of %i cents is %i, in whole cents, half a cent rounded up", (amount, value, expected) => {
    expect(charge(amount, value)).toBe(expected);
  });
});

const names = fc.constantFrom("a1", "a2", "sale", "lead", "é");
const path = fc.constantFrom("subtype", "account", "partner", "value_cents", "payload.x", "payload.x.y", "payload.constructor");
const condition = fc.record({
  field: path,
  op: fc.constantFrom("is", "in", "at_least", "at_most", "exists"),
  value: fc.oneof(names, fc.integer(), fc.boolean(), fc.constant(null), fc.array(names, { minLength: 1, maxLength: 3 })),
});
const cents = fc.integer({ min: 0, max: 1_000_000_000_000 });
const amount = fc.oneof(
  fc.record({ cents }),
  fc
    .record({ units: fc.integer({ min: 0, max: 1_000_000 }), bounds: fc.tuple(cents, cents), bounded: fc.boolean() })
    .map(({ units, bounds, bounded }) => ({
      percent: units / 10_000,
      ...(bounded && { min: Math.min(...bounds), max: Math.max(...bounds) }),
    })),
);
const rules = fc
  .array(fc.record({ when: fc.array(condition, { maxLength: 3 }), charge: amount, payout: amount }, { requiredKeys: ["when"] }), {
    maxLength: 6,
  })
  .map((list) => list.map((rule, index) => ({ name: `rule ${index}`, ...rule })))
  .map((list) => list.filter((rule) => rulesSchema.safeParse([rule]).success))
  .map((list) => rulesSchema.parse(list));
const outcomes: fc.Arbitrary<Judged> = fc.record({
  subtype: fc.option(names, { nil: undefined }),
  payload: fc.record(
    { account: names, partner: names, value_cents: cents, x: fc.oneof(fc.jsonValue(), fc.record({ y: names })) },
    { requiredKeys: ["account", "value_cents"] },
  ),
});

describe("For any rules and any outcome,", () => {
  it("for any rules and outcome, the decision is the first matching rule's, in whole cents within its bounds, and the same each time", () => {
    let decided = 0;
    fc.assert(
      fc.property(rules, outcomes, (rules, outcome) => {
        const decision = decide(rules, outcome);
        expect(decide(structuredClone(rules), structuredClone(outcome))).toEqual(decision);
        const alone = rules.find((rule) => decide([rule], outcome) !== undefined);
        expect(decision?.rule).toBe(alone?.name);
        if (!decision || !alone) return;
        decided++;
        for (const [cents, amount] of [
          [decision.charge_cents, alone.charge],
          [decision.payout_cents, outcome.payload.partner === undefined ? undefined : alone.payout],
        ] as const) {
          expect(cents === null).toBe(amount === undefined);
          if (cents === null || amount === undefined) continue;
          expect(Number.isSafeInteger(cents)).toBe(true);
          expect(cents).toBeGreaterThanOrEqual(amount.min ?? 0);
          expect(cents).toBeLessThanOrEqual(amount.max ?? 1_000_000_000_000);
          if (amount.percent !== undefined && amount.min === undefined)
            expect(Math.abs(cents - (outcome.payload.value_cents * amount.percent) / 100)).toBeLessThanOrEqual(0.501);
        }
      }),
      { numRuns: 500 },
    );
    expect(decided).toBeGreaterThan(100);
  });

  it("for any rules and outcome, the resulting facts are named after the outcome alone, for any decision", () => {
    const outcome = recordedFact("acme", "outcome", "o1", {
      account: "a1",
      partner: "p1",
      value_cents: 5,
      hold: "h",
    }) as RecordedFact<"outcome">;
    const one = derivedFacts(outcome, 1, { rule: "x", charge_cents: 1, payout_cents: 2 });
    const other = derivedFacts(outcome, 2, { rule: "y", charge_cents: 3, payout_cents: 4 });
    expect(one.map(({ fact_id, entity }) => [entity, fact_id])).toEqual(other.map(({ fact_id, entity }) => [entity, fact_id]));
    expect(one).toMatchObject([
      {
        entity: "account/a1",
        type: "charge",
        occurred_at: outcome.occurred_at,
        payload: { amount_cents: 1, outcome_id: "o1", hold: "h", decided_by: { version: 1, rule: "x" } },
      },
      { entity: "partner/p1", type: "payout", payload: { amount_cents: 2, outcome_id: "o1" } },
    ]);
    const [elsewhere] = derivedFacts({ ...outcome, entity: "outcome/other" }, 1, { rule: "x", charge_cents: 1, payout_cents: null });
    expect(elsewhere?.fact_id).not.toBe(one[0]?.fact_id);
  });
});

describe("Invalid rules are refused, with the place and the reason,", () => {
  const rule = (more: object) => [{ name: "r", when: [], ...more }];
  const given = (condition: object) => rule({ when: [condition] });
  it.each([
    [rule({ name: "" }), "0.name"],
    [
      [
        { name: "r", when: [] },
        { name: "r", when: [] },
      ],
      "1.name",
    ],
    [rule({ wehn: [] }), "0"],
    [[{ name: "r" }], "0.when"],
    [given({ field: "value", op: "is", value: 1 }), "0.when.0.field"],
    [given({ field: "payload", op: "exists", value: true }), "0.when.0.field"],
    [given({ field: "payload..x", op: "exists", value: true }), "0.when.0.field"],
    [given({ field: `payload${".x".repeat(9)}`, op: "exists", value: true }), "0.when.0.field"],
    [given({ field: "subtype", op: "like", value: "x" }), "0.when.0.op"],
    [given({ field: "subtype", op: "is", value: 1 }), "0.when.0.value"],
    [given({ field: "subtype", op: "at_least", value: 1 }), "0.when.0.op"],
    [given({ field: "value_cents", op: "is", value: "10" }), "0.when.0.value"],
    [given({ field: "value_cents", op: "at_least", value: "10" }), "0.when.0.value"],
    [given({ field: "subtype", op: "in", value: [] }), "0.when.0.value"],
    [given({ field: "payload.x", op: "exists", value: "yes" }), "0.when.0.value"],
    [given({ field: "payload.x", op: "is", value: { deep: 1 } }), "0.when.0.value"],
    [rule({ charge: {} }), "0.charge"],
    [rule({ charge: { cents: 1, percent: 1 } }), "0.charge"],
    [rule({ charge: { cents: -1 } }), "0.charge.cents"],
    [rule({ charge: { cents: 1.5 } }), "0.charge.cents"],
    [rule({ charge: { cents: "1" } }), "0.charge.cents"],
    [rule({ charge: { percent: 101 } }), "0.charge.percent"],
    [rule({ charge: { percent: 1.00001 } }), "0.charge.percent"],
    [rule({ charge: { cents: 1, min: 1 } }), "0.charge.min"],
    [rule({ payout: { percent: 1, min: 2, max: 1 } }), "0.payout.min"],
    [Array.from({ length: 101 }, (_, index) => ({ name: `r${index}`, when: [] })), ""],
  ])("invalid rules are refused with the place and the reason: %j", (rules, path) => {
    const { success, error } = rulesSchema.safeParse(rules);
    expect(success).toBe(false);
    expect(error?.issues.map(({ path, message }) => [path.join("."), message.length > 5])).toContainEqual([path, true]);
  });
});
