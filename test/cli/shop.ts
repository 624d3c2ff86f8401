import type { Config } from "../../packages/millrace/cli/wiring/config.ts";
import type { Known, KnownMessage, KnownWorkflow } from "../../packages/millrace/cli/wiring/known.ts";
import { mistakesIn } from "../../packages/millrace/cli/wiring/mistakes.ts";

export const orders = { queue: "orders", retries: { limit: 3 }, batch: { size: 10, waitSeconds: 0 }, concurrency: 5 };
export const consumer = {
  ...{ queue: "orders", max_batch_size: 10, max_batch_timeout: 0, max_retries: 3, max_concurrency: 5 },
  dead_letter_queue: "orders-dlq",
};
export const letters = { queue: "orders-dlq", max_batch_size: 100, max_batch_timeout: 1, max_retries: 100, max_concurrency: 1 };

const message = { file: "src/messages/orders.ts", queue: "orders", known: true };
export const command: KnownMessage = { ...message, name: "OrderPlace", kind: "command", type: "order.place", signals: false };
export const event: KnownMessage = { ...message, name: "OrderPacked", kind: "event", type: "order.packed", signals: true };
export const credit: KnownWorkflow = {
  ...{ file: "src/workflows/credit.ts", name: "creditLoyalty", workflow: "credit-loyalty" },
  ...{ on: "order.place", kind: "command", queue: "orders" },
};

export interface Shop {
  config: Config;
  known: Known;
  text: string;
}

/** A shop project with complete bindings. */
export function shop(): Shop {
  return {
    config: {
      name: "shop",
      workflows: [{ binding: "PLACE_ORDER", name: "place-order", class_name: "PlaceOrder" }],
      queues: { producers: [{ binding: "ORDERS", queue: "orders" }], consumers: [{ ...consumer }, letters] },
      durable_objects: {
        bindings: [
          { name: "STOCK", class_name: "Stock" },
          { name: "RECORDER", class_name: "Recorder" },
          { name: "KEEPER", class_name: "Keeper" },
        ],
      },
      migrations: [{ new_sqlite_classes: ["Stock", "Recorder", "Keeper"] }],
      services: [{ binding: "DESK", service: "shop", entrypoint: "Desk" }],
      ratelimits: [{ name: "SHOP_ASKS" }],
      vars: { SHOP_NAME: "Tea" },
    },
    known: {
      consumers: [orders],
      workflows: ["place-order"],
      classes: { PlaceOrder: "place-order", Stock: null, Desk: null, Recorder: null, Keeper: null },
      messages: [command, event],
      definitions: [
        {
          file: "src/workflows/place-order.ts",
          name: "placeOrder",
          workflow: "place-order",
          on: "order.place",
          kind: "command",
          queue: "orders",
        },
      ],
      declared: [{ file: "src/consumers/orders.ts", name: "ordering", queue: "orders" }],
    },
    text: 'env.DB; env.PAYLOADS; env.SHOP_ASKS; env.SHOP_NAME; env.SHOP_URL; env.STOCK; env.DESK; env.SHOP_COLOR; SHOP_COLOR?: string;\nstep.waitFor("packed", OrderPacked)',
  };
}

export const told = ({ config, known, text }: Shop) =>
  mistakesIn(config, known, [{ file: "src/workflows/place-order.ts", text }], ["SHOP_URL"]);
