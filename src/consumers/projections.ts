import { type Catalog, type Consumer, consumeEvents } from "../engine/index.ts";
import { projections } from "../messages/queues.ts";

export const projectionsConsumer = (catalog: Catalog): Consumer => consumeEvents(projections, catalog);
