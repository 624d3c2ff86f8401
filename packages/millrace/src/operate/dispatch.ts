import { type Dispatch, dispatchTo } from "../intake/dispatch.ts";
import type { Catalog } from "../topology/catalog.ts";
import { repairLetters } from "./letters/repair.ts";

/**
 * The `queue` handler of a Worker. Each queue is handled as its consumer in the catalog says, its dead letters are kept, and those that a
 * repair is for are mended. A batch of an unknown queue goes back, loudly, instead of being lost.
 */
export function dispatch(catalog: Catalog): Dispatch {
  return dispatchTo(catalog, repairLetters);
}
