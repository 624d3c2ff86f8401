import { type Catalog, type Consumer, consumeCommands } from "../engine/index.ts";
import { publishCommands } from "../messages/queues.ts";

export const publishCommandsConsumer = (catalog: Catalog): Consumer => consumeCommands(publishCommands, catalog);
