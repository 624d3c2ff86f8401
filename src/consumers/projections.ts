import { defineConsumer, on, project } from "millrace";
import { FactRecorded } from "../messages/facts.ts";
import { projections } from "../messages/queues.ts";
import { factRow, ledgerRow } from "../systems/facts/projection.ts";

/** Facts are numerous, so the consumer waits up to a second for a full batch. */
export const projecting = defineConsumer({
  queue: projections,
  retries: { limit: 10, initial: "1 second", max: "1 minute" },
  batch: { size: 100, waitSeconds: 1 },
  // A batch of facts is one statement of about 0.2 s, so ten parallel batches process the 5,000 messages per second that a queue delivers.
  concurrency: 10,
  routes: [on(FactRecorded, project(factRow), project(ledgerRow))],
});
