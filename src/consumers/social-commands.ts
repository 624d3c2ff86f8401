import { type Catalog, type Consumer, consumeCommands } from "../engine/index.ts";
import { socialCommands } from "../messages/queues.ts";

export const socialCommandsConsumer = (catalog: Catalog): Consumer => consumeCommands(socialCommands, catalog);
