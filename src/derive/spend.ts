import type { Routed } from "../engine/index.ts";
import type { RecordedFact } from "../facts/fact.ts";

/** A charge is counted against its account's budget. */
export async function spend(_event: Routed<RecordedFact<"charge">>): Promise<void> {}
