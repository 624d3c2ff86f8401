// The Worker of `npm run demo -- console`: the shop of `npm run demo -- operate`, its parcels, and a lane of address changes per customer.
import { bulkAction } from "millrace";
import { catalog, engineLanes, entrypoint, keeper } from "millrace/worker";
import { shopFront } from "../operate/front.ts";
import { shipOrder, shopConsumers } from "../operate/shop.ts";
import { changeAddress, followParcel, parcelConsumers } from "./parcels.ts";

const app = catalog({ consumers: [...shopConsumers, ...parcelConsumers] });

export { Recorder } from "millrace/worker";
export class Keeper extends keeper({ catalog: app }) {}
export class Lanes extends engineLanes(app) {}
export class ShipOrder extends entrypoint(shipOrder, app) {}
export class FollowParcel extends entrypoint(followParcel, app) {}
export class ChangeAddress extends entrypoint(changeAddress, app) {}
export class BulkAction extends entrypoint(bulkAction, app) {}

export default shopFront(app);
