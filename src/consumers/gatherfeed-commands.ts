import { defineConsumer } from "millrace";
import { gatherfeedCommands } from "../messages/queues.ts";
import { researchKeyword } from "../workflows/research-keyword.ts";

export const researching = defineConsumer({
  queue: gatherfeedCommands,
  // The commands of a brand's plan are numerous, so they have a lower priority than a person's request.
  priority: { low: "5 minutes" },
  starts: [researchKeyword],
});
