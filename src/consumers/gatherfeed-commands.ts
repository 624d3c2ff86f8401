import { defineConsumer } from "millrace";
import { gatherfeedCommands } from "../messages/queues.ts";
import { researchKeyword } from "../workflows/research-keyword.ts";

export const researching = defineConsumer({
  queue: gatherfeedCommands,
  // What a plan asks for in numbers can stand back behind what a person waits for.
  priority: { low: "5 minutes" },
  starts: [researchKeyword],
});
