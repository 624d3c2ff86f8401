import { type Catalog, type Consumer, consumeCommands } from "../engine/index.ts";
import { gatherfeedCommands } from "../messages/queues.ts";

export const gatherfeedCommandsConsumer = (catalog: Catalog): Consumer => consumeCommands(gatherfeedCommands, catalog);
