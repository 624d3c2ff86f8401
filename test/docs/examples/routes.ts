import { call, on, project, send, sendEach, signal, start, tell } from "millrace";
import { catalog } from "millrace/worker";
import { writeInvoice } from "./invoice.ts";
import { OrderDelivered, OrderPaid, OrderShip, OrderShipped } from "./messages.ts";
import { lateParcels, paidRow } from "./orders.ts";
import { shipOrder } from "./workflow.ts";

const inOneParcel = (order: { order_id: string; email: string }) => ({ ...order, parcels: ["all"] });

const routes = [
  on(OrderPaid, send(OrderShip, inOneParcel), project(paidRow)),
  on(
    OrderShipped,
    start(writeInvoice),
    tell("sales-board", () => "today"),
    call(({ payload }) => fetch(`https://cache.example.com/orders/${payload.order_id}`, { method: "DELETE" })),
  ),
  on(OrderDelivered, signal(), sendEach(OrderShip, lateParcels)),
];

export const shop = catalog({ workflows: [shipOrder, writeInvoice], routes });
