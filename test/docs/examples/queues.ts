import { defineConsumer, on, sendEach } from "millrace";
import { OrderDelivered, OrderShip, orderCommands, orderEvents } from "./messages.ts";
import { lateParcels } from "./orders.ts";
import { shipOrder } from "./workflow.ts";

export const shipping = defineConsumer({
  queue: orderCommands,
  retries: { limit: 5, initial: "10 seconds", max: "5 minutes" },
  batch: { size: 20, waitSeconds: 2 },
  concurrency: 3,
  deadline: "5 minutes",
  priority: { low: "10 minutes" },
  starts: [shipOrder],
});

export const following = defineConsumer({
  queue: orderEvents,
  routes: [on(OrderDelivered, sendEach(OrderShip, lateParcels, undefined, { ratePerSecond: 5 }))],
});
