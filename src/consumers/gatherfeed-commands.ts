import { defineConsumer } from "millrace";
import { gatherfeedCommands } from "../messages/queues.ts";
import { researchKeyword } from "../workflows/research-keyword.ts";

export const researching = defineConsumer({
  queue: gatherfeedCommands,
  // A plan's many commands have a lower priority than a person's request.
  priority: { low: "5 minutes" },
  starts: [researchKeyword],
});
