import { catalog, on, send, signal, start, tell } from "../../../src/engine/index.ts";
import { writeInvoice } from "./invoice.ts";
import { OrderDelivered, OrderPaid, OrderShip, OrderShipped } from "./messages.ts";
import { shipOrder } from "./workflow.ts";

const inOneParcel = (order: { order_id: string; email: string }) => ({ ...order, parcels: ["all"] });

const routes = [
  on(OrderPaid, send(OrderShip, inOneParcel)),
  on(
    OrderShipped,
    start(writeInvoice),
    tell("sales-board", () => "today"),
  ),
  on(OrderDelivered, signal()),
];

export const shop = catalog({ workflows: [shipOrder, writeInvoice], routes });
