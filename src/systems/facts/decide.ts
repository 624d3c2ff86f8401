import { derivedNames, type RecordedFact, type StatedFact } from "../../messages/fact.ts";
import type { Amount, Condition, Rule } from "./rules.ts";

/** The part of an outcome that rules evaluate. */
export type Judged = Pick<StatedFact<"outcome">, "subtype" | "payload">;

/** A rule's decision about an outcome. A null amount means that the rule causes no charge or no payout. */
export interface Decision {
  /** The name of the rule that matched. */
  rule: string;
  charge_cents: number | null;
  payout_cents: number | null;
}

/**
 * Decides an outcome by the first rule whose conditions are all true. The result is undefined if no rule matches. The same rules and
 * outcome always give the same decision.
 */
export function decide(rules: readonly Rule[], outcome: Judged): Decision | undefined {
  const matched = rules.find(({ when }) => when.every((condition) => holds(condition, outcome)));
  if (!matched) return undefined;
  const { name, charge, payout } = matched;
  const { value_cents, partner } = outcome.payload;
  return {
    rule: name,
    charge_cents: charge ? centsOf(charge, value_cents) : null,
    payout_cents: payout && partner !== undefined ? centsOf(payout, value_cents) : null,
  };
}

/**
 * The facts of a decided outcome. The names of these facts derive from the outcome's name, so a second decision about the outcome gives the
 * same facts.
 */
export function derivedFacts(outcome: RecordedFact<"outcome">, version: number, decision: Decision): StatedFact[] {
  const { account, partner, hold } = outcome.payload;
  const { rule, charge_cents, payout_cents } = decision;
  const named = outcome.derived ?? derivedNames(outcome);
  const origin = { outcome_id: outcome.fact_id, decided_by: { version, rule } };
  const facts: StatedFact[] = [];
  if (charge_cents !== null) {
    const payload = { account, amount_cents: charge_cents, ...origin, ...(hold !== undefined && { hold }) };
    facts.push({ fact_id: named.charge, entity: `account/${account}`, type: "charge", occurred_at: outcome.occurred_at, payload });
  }
  if (payout_cents !== null && partner !== undefined) {
    const payload = { partner, amount_cents: payout_cents, ...origin };
    facts.push({ fact_id: named.payout, entity: `partner/${partner}`, type: "payout", occurred_at: outcome.occurred_at, payload });
  }
  return facts;
}

/**
 * Tests a condition on an outcome. A field that is absent in the outcome meets only the condition `exists: false`. A comparison never
 * converts texts to numbers.
 */
function holds(condition: Condition, outcome: Judged): boolean {
  const value = valueAt(condition.field, outcome);
  switch (condition.op) {
    case "is":
      return value === condition.value;
    case "in":
      return condition.value.some((choice) => choice === value);
    case "at_least":
      return typeof value === "number" && value >= condition.value;
    case "at_most":
      return typeof value === "number" && value <= condition.value;
    case "exists":
      return (value !== undefined) === condition.value;
  }
}

/** Reads a field of an outcome. Inherited properties are not read, so that a rule has no access to data outside the outcome. */
function valueAt(field: string, { subtype, payload }: Judged): unknown {
  if (field === "subtype") return subtype;
  const path = field.startsWith("payload.") ? field.split(".").slice(1) : [field];
  return path.reduce<unknown>((at, name) => (isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined), payload);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Computes an amount in cents. A percentage is computed with integers, in ten-thousandths of a percent, so the result is exact for any
 * value. Half a cent is rounded up.
 */
function centsOf({ cents, percent = 0, min = 0, max = Number.MAX_SAFE_INTEGER }: Amount, value: number): number {
  if (cents !== undefined) return cents;
  const share = Number((BigInt(value) * BigInt(Math.round(percent * 10_000)) + 500_000n) / 1_000_000n);
  return Math.max(min, Math.min(max, share));
}
