import { type Dispatch, dispatchTo } from "../intake/dispatch.ts";
import type { Catalog } from "../topology/catalog.ts";
import { repairLetters } from "./letters/repair.ts";

/**
 * The `queue` handler of a Worker. Each queue is handled by its consumer in the catalog. Dead letters are stored, and repaired where a
 * repair matches. A batch of an unknown queue is retried and logged, not lost.
 */
export function dispatch(catalog: Catalog): Dispatch {
  return dispatchTo(catalog, repairLetters);
}
