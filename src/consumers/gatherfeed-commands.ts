import { consumeCommands } from "../engine/index.ts";
import { gatherfeedCommands } from "../messages/queues.ts";
import { researchKeyword } from "../workflows/research-keyword.ts";

export const gatherfeedCommandsConsumer = consumeCommands(gatherfeedCommands, researchKeyword);
