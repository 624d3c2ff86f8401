import { defineWorkflow, errors, sql } from "millrace";
import { OrderPaid, OrderShipped } from "./messages.ts";

/** Waits for the payment of an order that was shipped; without one it is overdue. */
export const awaitPayment = defineWorkflow({
  name: "await-payment",
  on: OrderShipped,
  async run({ payload: { order_id }, step }) {
    try {
      await step.waitFor("wait for payment", OrderPaid, { subject: order_id, timeout: "14 days" });
      return { paid: true };
    } catch (error) {
      if (errors.codeOf(error) !== "wait_timeout") throw error;
      await step.commit("mark overdue", () => ({ statements: [sql`UPDATE orders SET overdue_at = ${sql.now} WHERE id = ${order_id}`] }));
      return { paid: false };
    }
  },
});
