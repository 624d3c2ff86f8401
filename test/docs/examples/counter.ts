import { counterOf } from "millrace/counters";

/** Page views: counted without a key, because one more or less after an error does no harm. */
export function countView(env: Cloudflare.Env, page: string): Promise<boolean> {
  return counterOf(env, `views/${page}`).add();
}

/** Sold items: each order once, for any number of deliveries of its message. */
export async function countSales(env: Cloudflare.Env, orders: readonly { id: string; cents: number }[]): Promise<number> {
  const sales = counterOf(env, "sales", { shards: 8 });
  return sales.addAll(orders.map(({ id, cents }) => ({ n: cents, key: id })));
}

/** A dashboard: the sum, at most five seconds old, and the last hour minute by minute. */
export async function seeSales(env: Cloudflare.Env) {
  const sales = counterOf(env, "sales", { shards: 8 });
  return { cents: await sales.read({ maxAgeMs: 5_000 }), lastHour: await sales.perMinute(60) };
}
