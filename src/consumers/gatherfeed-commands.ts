import { defineConsumer } from "millrace";
import { gatherfeedCommands } from "../messages/queues.ts";
import { researchKeyword } from "../workflows/research-keyword.ts";

export const researching = defineConsumer({ queue: gatherfeedCommands, starts: [researchKeyword] });
