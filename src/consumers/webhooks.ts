import { type Catalog, type Consumer, consumeCommands } from "../engine/index.ts";
import { webhooks } from "../messages/queues.ts";

export const webhooksConsumer = (catalog: Catalog): Consumer => consumeCommands(webhooks, catalog);
