import { type Catalog, type Consumer, consumeCommands } from "../engine/index.ts";
import { crmCommands } from "../messages/queues.ts";

export const crmCommandsConsumer = (catalog: Catalog): Consumer => consumeCommands(crmCommands, catalog);
