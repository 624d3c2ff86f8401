import { type Catalog, catalog } from "millrace/worker";
import * as consumers from "./consumers/index.ts";
import { skippedLetterFact } from "./systems/facts/derived/skipped-letter.ts";
import { confirmFacts } from "./systems/facts/ledger/ledgers.ts";
import { deliverFacts } from "./systems/webhooks/bulk-deliver.ts";
import { redeliverDeliveries } from "./systems/webhooks/bulk-redeliver.ts";
import { sendCallback } from "./workflows/send-callback.ts";

/**
 * All of this deployment's consumers with their workflows and routes. For a new chain, add the workflow to the consumer of the workflow's
 * queue, and add the workflow's class to worker.ts.
 */
export const app: Catalog = catalog({
  consumers: Object.values(consumers),
  onConfirmed: confirmFacts,
  onSkipped: skippedLetterFact,
  bulkVerbs: [redeliverDeliveries, deliverFacts],
  callbacks: sendCallback,
});
