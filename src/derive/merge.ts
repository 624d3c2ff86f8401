import type { Routed } from "../engine/index.ts";
import type { RecordedFact } from "../facts/fact.ts";

/** Two contacts become one. */
export async function merge(_event: Routed<RecordedFact<"contact_merged">>): Promise<void> {}
