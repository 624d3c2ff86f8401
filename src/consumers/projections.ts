import { defineConsumer, on, project } from "millrace";
import { FactRecorded } from "../messages/facts.ts";
import { projections } from "../messages/queues.ts";
import { factRow, ledgerRow } from "../systems/facts/projection.ts";

/** Facts come in numbers: a batch waits up to a second to fill. */
export const projecting = defineConsumer({
  queue: projections,
  retries: { limit: 10, initial: "1 second", max: "1 minute" },
  batch: { size: 100, waitSeconds: 1 },
  // A batch is one statement of about 0.2 s: ten at a time take the 5,000 messages a second that a queue brings at most.
  concurrency: 10,
  routes: [on(FactRecorded, project(factRow), project(ledgerRow))],
});
