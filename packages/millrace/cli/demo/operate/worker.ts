// The Worker of `npm run demo -- operate`: the engine, a shop's orders, and another program that may send to their queue.
import { bulkAction } from "millrace";
import { catalog, entrypoint, keeper } from "millrace/worker";
import { shopFront } from "./front.ts";
import { shipOrder, shopConsumers } from "./shop.ts";

const app = catalog({ consumers: shopConsumers });

export { Recorder } from "millrace/worker";
export class Keeper extends keeper({ catalog: app }) {}
export class ShipOrder extends entrypoint(shipOrder, app) {}
export class BulkAction extends entrypoint(bulkAction, app) {}

export default shopFront(app);
