// The Worker of the screenshots in docs/console.md: a shop's orders, its parcels, and a lane of address changes for each customer.
import { engineRoutes } from "millrace/http";
import { engineLanes } from "millrace/lanes";
import { armKeeper, bulkAction, catalog, dispatch, entrypoint, keeper } from "millrace/worker";
import { changeAddress, followParcel, parcelConsumers } from "./parcels.ts";
import { shipOrder, shopConsumers } from "./shop.ts";

const app = catalog({ consumers: [...shopConsumers, ...parcelConsumers] });

export { Recorder } from "millrace/worker";
export class Keeper extends keeper({ catalog: app }) {}
export class Lanes extends engineLanes(app) {}
export class ShipOrder extends entrypoint(shipOrder, app) {}
export class FollowParcel extends entrypoint(followParcel, app) {}
export class ChangeAddress extends entrypoint(changeAddress, app) {}
export class BulkAction extends entrypoint(bulkAction, app) {}

const api = engineRoutes(app);
const consume = dispatch(app);

export default {
  /** `POST /outsider` sends a message to the queue without validation, as another program would. The engine handles all other requests. */
  async fetch(request, env, ctx) {
    armKeeper(env, ctx);
    if (new URL(request.url).pathname !== "/outsider") return api.fetch(request, env, ctx);
    await (env as unknown as { ORDER_COMMANDS: Queue }).ORDER_COMMANDS.send(await request.json());
    return new Response(null, { status: 204 });
  },
  queue(batch, env, ctx) {
    armKeeper(env, ctx);
    return consume(batch, env);
  },
} satisfies ExportedHandler<Env>;
