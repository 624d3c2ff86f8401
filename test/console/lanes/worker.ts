// An engine whose one workflow has a lane in front of it: the changes of an order are made one after another.
import { defineCommand, defineConsumer, defineLaneQueue, defineStep, defineWorkflow, notRetryable } from "millrace";
import { engineRoutes } from "millrace/http";
import { armKeeper, catalog, engineLanes, entrypoint, keeper } from "millrace/worker";
import * as z from "zod";

const orders = defineLaneQueue({ name: "orders" });

/** Change an order. `refused` is one that the warehouse does not make. */
const OrderChange = defineCommand({
  type: "order.change",
  payload: z.object({ order: z.string().min(1), change: z.int(), refused: z.boolean().default(false) }),
  key: ({ order, change }) => `${order}/${change}`,
  subject: ({ order }) => order,
  queue: orders,
});

const tellWarehouse = defineStep<{ refused: boolean }, null>({
  effect: "natural",
  async run({ input }) {
    if (input.refused) throw notRetryable("The warehouse has packed this order.", 409);
    return null;
  },
});

const changeOrder = defineWorkflow({
  name: "change-order",
  on: OrderChange,
  run: ({ payload: { refused }, step }) => step.effect("tell the warehouse", tellWarehouse, { refused }),
});

const app = catalog({ consumers: [defineConsumer({ queue: orders, starts: [changeOrder], onFailure: "hold" })] });

export { Recorder } from "millrace/worker";
export class Keeper extends keeper({ catalog: app }) {}
export class Lanes extends engineLanes(app) {}
export class ChangeOrder extends entrypoint(changeOrder, app) {}

const api = engineRoutes(app);

export default {
  fetch(request, env, ctx) {
    armKeeper(env, ctx);
    return api.fetch(request, env, ctx);
  },
} satisfies ExportedHandler<Env>;
