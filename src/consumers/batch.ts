import { type Catalog, type Consumer, consumeCommands } from "../engine/index.ts";
import { batch } from "../messages/queues.ts";

export const batchConsumer = (catalog: Catalog): Consumer => consumeCommands(batch, catalog);
