import type { Routed } from "millrace";
import type { StatedFact } from "../../../messages/fact.ts";
import { appendFacts, provenanceOf, reusedName } from "../ledger/ledgers.ts";

/**
 * What a step has seen becomes a fact of its ledger. A name that belongs to another fact ends as a dead letter: dropped in silence, nobody
 * would miss it.
 */
export async function appendObserved({ payload, envelope, env }: Routed<StatedFact>): Promise<void> {
  const [appended] = await appendFacts(env, provenanceOf(envelope), [payload]);
  if (appended?.outcome === "differs") throw reusedName(payload);
}
