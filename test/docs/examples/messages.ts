import { defineCommand, defineEvent, defineQueue, sensitive } from "millrace";
import * as z from "zod";

export const orderCommands = defineQueue({ name: "order-commands" });
export const orderEvents = defineQueue({ name: "order-events" });
const order = z.object({ order_id: z.string().min(1).max(64), email: sensitive(z.email()) });
const id = ({ order_id }: { order_id: string }) => order_id;

/** Ship a paid order. Version 1 had one parcel. */
export const OrderShip = defineCommand({
  type: "order.ship",
  version: 2,
  payload: order.extend({ parcels: z.array(z.string().min(1).max(40)).min(1).max(50) }),
  upcasts: { 1: ({ parcel, ...rest }: { parcel: string }) => ({ ...rest, parcels: [parcel] }) },
  key: id,
  subject: id,
  queue: orderCommands,
});

export const OrderPaid = defineEvent({ type: "order.paid", payload: order, subject: id, queue: orderEvents });
export const OrderShipped = defineEvent({ type: "order.shipped", payload: order, subject: id, queue: orderEvents });
export const OrderDelivered = defineEvent({ type: "order.delivered", payload: order, subject: id, queue: orderEvents });
