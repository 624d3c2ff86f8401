import { defineCommand, defineConsumer, defineLaneQueue, defineWorkflow, sql } from "millrace";
import * as z from "zod";

const customers = defineLaneQueue({ name: "customers" });

/** A customer has a new address. */
const CustomerMove = defineCommand({
  type: "customer.move",
  payload: z.object({ customer: z.string().min(1), move: z.string().min(1), email: z.email() }),
  key: ({ move }) => move,
  // The key of the lane: the moves of one customer are made one after another.
  subject: ({ customer }) => customer,
  queue: customers,
});

export const moveCustomer = defineWorkflow({
  name: "move-customer",
  on: CustomerMove,
  async run({ payload: { customer, email }, step }) {
    await step.commit("move", () => ({
      statements: [
        sql`INSERT INTO customers (id, email) VALUES (${customer}, ${email}) ON CONFLICT (id) DO UPDATE SET email = excluded.email`,
      ],
    }));
  },
});

/** In the catalog, as any consumer. */
export const customerConsumer = defineConsumer({ queue: customers, starts: [moveCustomer], onFailure: "block" });
