import { type Statement, sql } from "../../../src/engine/index.ts";

export async function addressOf(db: D1Database, orderId: string): Promise<string> {
  const address = await db.prepare("SELECT address FROM orders WHERE id = ?1").bind(orderId).first<string>("address");
  if (address === null) throw new Error(`There is no order ${orderId}.`);
  return address;
}

export function insertLabel(orderId: string, parcel: string, label: string): Statement {
  return sql`INSERT INTO labels (order_id, parcel, label) VALUES (${orderId}, ${parcel}, ${label})`;
}
