import type { Routed } from "millrace";
import type { RecordedFact } from "../../../messages/fact.ts";
import { decide, derivedFacts } from "../decide.ts";
import { appendFacts, provenanceOf, reusedName } from "../ledger/ledgers.ts";
import { ownFact } from "../own.ts";
import { recentRules, rulesAt } from "./rules.ts";

/**
 * Creates the charge and the payout of an outcome, by the rules that were in effect when the outcome was recorded. Charge and payout are
 * named after the outcome, so a redelivery adds only a missing charge or payout.
 */
export async function qualify(told: Routed<RecordedFact<"outcome">>): Promise<void> {
  const outcome = ownFact(told);
  const { env, envelope, once } = told;
  const { tenant_id } = envelope;
  const recent = await once(`qualification rules of ${tenant_id}`, () => recentRules(env.DB, tenant_id));
  const counted = await rulesAt(env.DB, tenant_id, Date.parse(outcome.recorded_at), recent);
  const decision = counted && decide(counted.rules, outcome);
  if (!decision) return;
  const facts = derivedFacts(outcome, counted.version, decision);
  const appended = await appendFacts(env, provenanceOf(envelope), facts);
  const taken = facts.find((_, index) => appended[index]?.outcome === "differs");
  if (taken) throw reusedName(taken);
}
