import { call, defineConsumer, on, project, send, sendEach, signal, start, tell } from "millrace";
import { catalog } from "millrace/worker";
import { writeInvoice } from "./invoice.ts";
import { OrderDelivered, OrderPaid, OrderShip, OrderShipped, orderCommands, orderEvents } from "./messages.ts";
import { lateParcels, paidRow } from "./orders.ts";
import { shipOrder } from "./workflow.ts";

const inOneParcel = (order: { order_id: string; email: string }) => ({ ...order, parcels: ["all"] });

const shipping = defineConsumer({
  queue: orderCommands,
  retries: { limit: 5, initial: "10 seconds", max: "5 minutes" },
  starts: [shipOrder],
});

const following = defineConsumer({
  queue: orderEvents,
  batch: { size: 100, waitSeconds: 0 },
  routes: [
    on(OrderPaid, send(OrderShip, inOneParcel), project(paidRow)),
    on(
      OrderShipped,
      start(writeInvoice),
      tell("sales-board", () => "today"),
      call(({ payload }) => fetch(`https://cache.example.com/orders/${payload.order_id}`, { method: "DELETE" })),
    ),
    on(OrderDelivered, signal(), sendEach(OrderShip, lateParcels)),
  ],
});

export const shop = catalog({ consumers: [shipping, following] });
