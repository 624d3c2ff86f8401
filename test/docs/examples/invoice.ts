import { defineWorkflow, sql } from "millrace";
import { OrderShipped } from "./messages.ts";

/** Writes the invoice of a shipped order. */
export const writeInvoice = defineWorkflow({
  name: "write-invoice",
  on: OrderShipped,
  async run({ payload: { order_id }, step }) {
    await step.commit("write invoice", () => ({ statements: [sql`INSERT INTO invoices (order_id) VALUES (${order_id})`] }));
  },
});
