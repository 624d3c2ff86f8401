import type { Routed } from "millrace";
import type { RecordedFact } from "../../../messages/fact.ts";
import { isPseudonym } from "../../contacts/forgotten.ts";
import { ownFact } from "../own.ts";
import { contactBookOf } from "./contact-books.ts";

/** Two contacts become one. */
export async function merge(told: Routed<RecordedFact<"contact_merged">>): Promise<void> {
  const { entity, fact_id, occurred_at, payload } = ownFact(told);
  const { env, envelope } = told;
  // Of somebody who was forgotten nothing is known any more, also by whom else they were known.
  if (isPseudonym(payload.from) || isPseudonym(payload.into)) return;
  await contactBookOf(env, envelope.tenant_id).merge({ entity, fact_id, occurred_at, ...payload });
}
