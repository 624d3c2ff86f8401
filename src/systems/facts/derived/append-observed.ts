import type { Routed } from "millrace";
import type { StatedFact } from "../../../messages/fact.ts";
import { appendFacts, provenanceOf, reusedName } from "../ledger/ledgers.ts";

/**
 * Appends a fact, which a step has observed, to the fact's ledger. If another fact has the same name, the message becomes a dead letter, so
 * that the loss is visible.
 */
export async function appendObserved({ payload, envelope, env }: Routed<StatedFact>): Promise<void> {
  const [appended] = await appendFacts(env, provenanceOf(envelope), [payload]);
  if (appended?.outcome === "differs") throw reusedName(payload);
}
