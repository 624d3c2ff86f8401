import { type Catalog, type Consumer, consumeEvents } from "../engine/index.ts";
import { factProcessing } from "../messages/queues.ts";

export const factProcessingConsumer = (catalog: Catalog): Consumer => consumeEvents(factProcessing, catalog);
