import { type Catalog, type Consumer, consumeEvents } from "../engine/index.ts";
import { brandEvents } from "../messages/queues.ts";

export const brandEventsConsumer = (catalog: Catalog): Consumer => consumeEvents(brandEvents, catalog);
