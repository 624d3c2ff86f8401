import { digest, type Routed } from "../engine/index.ts";
import type { ContactMergedFact } from "../messages/facts.ts";
import { candidatesByIds } from "./links.ts";

/** Two contacts became one. If the one that is no more has a record in the CRM, that is merged too: its own sync does it. */
export async function mergeRecords({ payload: fact, envelope, env }: Routed<(typeof ContactMergedFact)["payload"]["_output"]>) {
  const { entity, fact_id, payload } = fact;
  const [from] = await candidatesByIds(env.DB, envelope.tenant_id, [payload.from]);
  return from?.link?.crmId ? [{ contact_id: payload.from, occasion: `merge ${digest(entity, fact_id)}` }] : [];
}
