import type { Routed } from "../engine/index.ts";
import type { RecordedFact } from "../facts/fact.ts";
import { contactBookOf } from "../objects/contact-books.ts";

/** Two contacts become one. */
export async function merge({ payload: fact, envelope, env }: Routed<RecordedFact<"contact_merged">>): Promise<void> {
  const { entity, fact_id, occurred_at, payload } = fact;
  await contactBookOf(env, envelope.tenant_id).merge({ entity, fact_id, occurred_at, ...payload });
}
