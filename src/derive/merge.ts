import type { Routed } from "../engine/index.ts";
import type { RecordedFact } from "../facts/fact.ts";
import { ownFact } from "../facts/own.ts";
import { contactBookOf } from "../objects/contact-books.ts";

/** Two contacts become one. */
export async function merge(told: Routed<RecordedFact<"contact_merged">>): Promise<void> {
  const { entity, fact_id, occurred_at, payload } = ownFact(told);
  const { env, envelope } = told;
  await contactBookOf(env, envelope.tenant_id).merge({ entity, fact_id, occurred_at, ...payload });
}
