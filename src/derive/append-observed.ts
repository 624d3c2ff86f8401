import type { Routed } from "../engine/index.ts";
import type { StatedFact } from "../facts/fact.ts";
import { appendFacts, provenanceOf } from "../objects/ledgers.ts";

/** What a step has seen becomes a fact of its ledger. */
export async function appendObserved({ payload, envelope, env }: Routed<StatedFact>): Promise<void> {
  await appendFacts(env, provenanceOf(envelope), [payload]);
}
