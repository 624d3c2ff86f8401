import { type Catalog, type Consumer, consumeCommands } from "../engine/index.ts";
import { smCommands } from "../messages/queues.ts";

export const smCommandsConsumer = (catalog: Catalog): Consumer => consumeCommands(smCommands, catalog);
