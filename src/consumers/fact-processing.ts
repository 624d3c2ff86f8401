import { call, defineConsumer, on, sendEach } from "millrace";
import { ContactSync } from "../messages/crm.ts";
import { FactObserved, PROCESSED_EVENTS } from "../messages/facts.ts";
import { factProcessing } from "../messages/queues.ts";
import { WebhookDeliver } from "../messages/webhooks.ts";
import { mergeRecords } from "../systems/crm/merged.ts";
import { appendObserved } from "../systems/facts/derived/append-observed.ts";
import { merge } from "../systems/facts/derived/merge.ts";
import { qualify } from "../systems/facts/derived/qualify.ts";
import { spend } from "../systems/facts/derived/spend.ts";
import { deliveryRow } from "../systems/webhooks/deliveries.ts";
import { stateMatches } from "../systems/webhooks/matches.ts";
import { offer } from "../systems/webhooks/offer.ts";
import { deliverWebhook } from "../workflows/deliver-webhook.ts";

/** If the processing of a fact's consequence finally fails, the event becomes a dead letter. This failure delays no webhook. */
const LATE = { after: "commit" } as const;

/**
 * The consumer that processes the consequences of recorded facts. Facts are numerous, so the consumer waits up to a second for a full
 * batch.
 */
export const deriving = defineConsumer({
  queue: factProcessing,
  retries: { limit: 5, initial: "5 seconds", max: "2 minutes" },
  batch: { size: 50, waitSeconds: 1 },
  // The consumer mostly waits for Durable Objects (budgets, contact books, other ledgers), and little for the database.
  concurrency: 10,
  routes: [
    on(PROCESSED_EVENTS.outcome, call(qualify, LATE), ...webhooks()),
    on(PROCESSED_EVENTS.charge, call(spend, LATE), ...webhooks()),
    on(PROCESSED_EVENTS.payout, ...webhooks()),
    // The merge of contacts runs before the commit, so that a sync of the alias finds the contact merged.
    on(PROCESSED_EVENTS.contact_merged, call(merge), sendEach(ContactSync, mergeRecords), ...webhooks()),
    on(PROCESSED_EVENTS.reconciliation, ...webhooks()),
    on(FactObserved, call(appendObserved)),
  ],
});

/** Sends a fact to subscribed webhooks. After a delivery is stored, the match of the fact and the webhook is recorded. */
function webhooks() {
  return [sendEach(WebhookDeliver, offer, deliveryRow), call(stateMatches(deliverWebhook.name), LATE)];
}
