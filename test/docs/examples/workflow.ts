import { defineWorkflow, sql } from "millrace";
import { OrderDelivered, OrderShip, OrderShipped } from "./messages.ts";
import { addressOf, insertLabel } from "./orders.ts";
import { bookCourier, sendMail } from "./steps.ts";

/** Ships an order's parcels, and asks how it was once they have arrived. */
export const shipOrder = defineWorkflow({
  name: "ship-order",
  on: OrderShip,
  async run({ payload: { order_id, email, parcels }, step, env }) {
    const address = await step.read("load address", () => addressOf(env.DB, order_id));

    await step.map(parcels, { key: (parcel) => parcel }, (parcel, each) => {
      const booking = { reference: `${order_id}/${parcel}`, address };
      const record = ({ label }: { label: string }) => ({ statements: [insertLabel(order_id, parcel, label)] });
      return each.effect("book courier", bookCourier, booking, { record });
    });

    await step.commit("mark shipped", () => ({
      statements: [sql`UPDATE orders SET shipped_at = ${sql.now} WHERE id = ${order_id}`],
      emit: [OrderShipped.from({ order_id, email })],
    }));

    await step.waitFor("wait for delivery", OrderDelivered, { subject: order_id, timeout: "14 days" });
    await step.sleep("let them unpack", "1 day");
    await step.effect("ask how it was", sendMail, { to: email, text: "Did everything arrive?" });
  },
});
