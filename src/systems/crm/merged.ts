import { ids, type Routed } from "millrace";
import type { RecordedFact } from "../../messages/fact.ts";
import { candidatesByIds } from "./links.ts";
import { isOnItsWay } from "./sends.ts";

/**
 * Handles the event that two contacts were merged. If the alias has a record in the CRM, or a push may be creating one, its own sync
 * merges that record
 * after the push has ended.
 */
export async function mergeRecords({ payload: fact, envelope, env }: Routed<RecordedFact<"contact_merged">>) {
  const { entity, fact_id, payload } = fact;
  const [from] = await candidatesByIds(env.DB, envelope.tenant_id, [payload.from]);
  const hasRecord = from && (from.link?.crmId || from.link?.maybe.length || (await isOnItsWay(env.DB, envelope.tenant_id, payload.from)));
  return hasRecord ? [{ contact_id: payload.from, occasion: `merge ${ids.digest(entity, fact_id)}` }] : [];
}
