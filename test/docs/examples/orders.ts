import { query, type Routed, type Statement, sql } from "millrace";

export async function addressOf(db: D1Database, orderId: string): Promise<string> {
  const address = await db.prepare("SELECT address FROM orders WHERE id = ?1").bind(orderId).first<string>("address");
  if (address === null) throw new Error(`There is no order ${orderId}.`);
  return address;
}

export function insertLabel(orderId: string, parcel: string, label: string): Statement {
  return sql`INSERT INTO labels (order_id, parcel, label) VALUES (${orderId}, ${parcel}, ${label})`;
}

/** The row of a paid order. A repeat changes nothing. */
export function paidRow({ payload }: Routed<{ order_id: string; email: string }>) {
  return { text: INSERT_PAID, row: payload };
}

const INSERT_PAID = `
  INSERT INTO paid_orders (order_id, email) SELECT value->>'order_id', value->>'email' FROM json_each(?1) WHERE true
  ON CONFLICT DO NOTHING`;

/** The items still to send after a delivery: none, or some. Orders of one batch share one read of the stock. */
export async function lateParcels({ payload, env, once }: Routed<{ order_id: string; email: string }>) {
  const late = await once("late parcels", () =>
    query<{ order_id: string; parcel: string }>(env.DB, sql`SELECT order_id, parcel FROM late_parcels`),
  );
  return late
    .filter(({ order_id }) => order_id === payload.order_id)
    .map(({ parcel }) => ({ ...payload, order_id: `${payload.order_id}-${parcel}`, parcels: [parcel] }));
}
