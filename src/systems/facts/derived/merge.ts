import type { Routed } from "millrace";
import type { RecordedFact } from "../../../messages/fact.ts";
import { isPseudonym } from "../../contacts/forgotten.ts";
import { ownFact } from "../own.ts";
import { contactBookOf } from "./contact-books.ts";

/** Applies a merge of two contacts. */
export async function merge(told: Routed<RecordedFact<"contact_merged">>): Promise<void> {
  const { entity, fact_id, occurred_at, payload } = ownFact(told);
  const { env, envelope } = told;
  // A merge of a forgotten contact is ignored, because the contact book no longer contains the contact and its aliases.
  if (isPseudonym(payload.from) || isPseudonym(payload.into)) return;
  await contactBookOf(env, envelope.tenant_id).merge({ entity, fact_id, occurred_at, ...payload });
}
