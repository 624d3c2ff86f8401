import { defineConsumer } from "millrace";
import { gatherfeedCommands } from "../messages/queues.ts";
import { researchKeyword } from "../workflows/research-keyword.ts";

export const researching = defineConsumer({
  queue: gatherfeedCommands,
  // The many commands of a brand's plan have a lower priority than a person's request.
  priority: { low: "5 minutes" },
  starts: [researchKeyword],
});
