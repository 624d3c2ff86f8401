import { ids, type Routed } from "millrace";
import type { RecordedFact } from "../../messages/fact.ts";
import { WebhookDeliver } from "../../messages/webhooks.ts";
import { appendFacts, provenanceOf } from "../facts/ledger/ledgers.ts";
import { offer } from "./offer.ts";
import { matched } from "./outcome.ts";

/**
 * Records immediately, in the ledger of each matching endpoint, that a fact has matched the endpoint. In this way the ledger also contains
 * deliveries that never end. `workflow` is the name of the workflow that sends deliveries.
 */
export function stateMatches(workflow: string): (told: Routed<RecordedFact>) => Promise<void> {
  return async (told) => {
    const { env, envelope } = told;
    const { tenant_id } = envelope;
    const facts = (await offer(told)).map((payload) => {
      const id = ids.instance(tenant_id, workflow, WebhookDeliver.key?.(payload) ?? "");
      return matched({ ...payload, id }, envelope.created_at);
    });
    if (facts.length > 0) await appendFacts(env, provenanceOf(envelope), facts);
  };
}
