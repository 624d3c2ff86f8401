import { defineWorkflow, sql } from "millrace";
import { OrderPaid, OrderShipped } from "./messages.ts";
import { bookCourier } from "./steps.ts";

export const shipPaidOrder = defineWorkflow({
  name: "ship-paid-order",
  on: OrderPaid,
  async run({ payload: { order_id, email }, step }) {
    const { label } = await step.effect("book courier", bookCourier, { reference: order_id, address: email });
    const shipped = sql`UPDATE orders SET label = ${label}, shipped_at = ${sql.now} WHERE id = ${order_id}`;
    await step.commit("mark shipped", () => ({ statements: [shipped], emit: [OrderShipped.from({ order_id, email })] }));
  },
});
