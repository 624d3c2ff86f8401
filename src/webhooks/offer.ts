import type { Routed } from "../engine/index.ts";
import type { RecordedFact } from "../facts/fact.ts";

type Delivery = { endpoint_id: string; config_version: number; fact_id: string; fact_type: string; body: string };

/** One delivery for each endpoint whose configuration matches a fact. */
export async function offer(_event: Routed<RecordedFact>): Promise<Delivery[]> {
  return [];
}
