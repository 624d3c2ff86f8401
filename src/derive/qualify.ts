import type { Routed } from "../engine/index.ts";
import type { RecordedFact } from "../facts/fact.ts";

/** An outcome becomes a charge and a payout, as the tenant's rules say. */
export async function qualify(_event: Routed<RecordedFact<"outcome">>): Promise<void> {}
