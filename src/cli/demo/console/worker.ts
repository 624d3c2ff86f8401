// The Worker of `npm run demo -- console`: the shop of `npm run demo -- operate`, its parcels, and a lane of address changes per customer.
import { BulkActionRun, bulkAction, defineConsumer } from "millrace";
import { engineRoutes } from "millrace/http";
import { armKeeper, catalog, dispatch, engineLanes, entrypoint, keeper } from "millrace/worker";
import { orderCommands, shipOrder } from "../operate/shop.ts";
import { changeAddress, followParcel, parcelConsumers } from "./parcels.ts";

const app = catalog({
  consumers: [
    defineConsumer({ queue: orderCommands, starts: [shipOrder] }),
    defineConsumer({ queue: BulkActionRun.queue, starts: [bulkAction] }),
    ...parcelConsumers,
  ],
});

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
  /** `POST /outsider` is another program that may send to the queue: nobody has looked at its message before it is there. */
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
