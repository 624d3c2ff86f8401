import { type Dispatch, dispatchTo } from "../intake/dispatch.ts";
import type { Catalog } from "../topology/catalog.ts";
import { repairLetters } from "./letters/repair.ts";

/**
 * The `queue` handler of a Worker. Each batch is handled by the consumer of its queue in the catalog. Dead letters are stored, and a dead
 * letter that matches a repair is repaired. A batch of an unknown queue is logged and retried.
 */
export function dispatch(catalog: Catalog): Dispatch {
  return dispatchTo(catalog, repairLetters);
}
