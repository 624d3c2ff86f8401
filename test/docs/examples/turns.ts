import { defineCommand, defineConsumer, defineWorkflow, sql } from "millrace";
import { defineLaneQueue } from "millrace/lanes";
import * as z from "zod";

const customers = defineLaneQueue({ name: "customers" });

/** A customer has a new address. */
const AddressChange = defineCommand({
  type: "address.change",
  payload: z.object({ customer: z.string().min(1), change: z.string().min(1), email: z.email() }),
  key: ({ change }) => change,
  // The key of the lane: the changes of one customer are made one after another.
  subject: ({ customer }) => customer,
  queue: customers,
});

export const changeAddress = defineWorkflow({
  name: "change-address",
  on: AddressChange,
  async run({ payload: { customer, email }, step }) {
    await step.commit("change", () => ({
      statements: [
        sql`INSERT INTO customers (id, email) VALUES (${customer}, ${email}) ON CONFLICT (id) DO UPDATE SET email = excluded.email`,
      ],
    }));
  },
});

/** In the catalog, as any consumer. */
export const customerConsumer = defineConsumer({ queue: customers, starts: [changeAddress], onFailure: "block" });
