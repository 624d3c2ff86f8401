import { defineLane, laneObject, laneOf } from "millrace/lanes";

interface Env {
  DB: D1Database;
}

/** The events of one order, in the order in which they happened. */
export interface OrderChange {
  order: string;
  status: "paid" | "packed" | "shipped";
}

export const orderChanges = defineLane<OrderChange, Env>({
  name: "order-changes",
  onFailure: "park",
  async queue(batch, env) {
    for (const message of batch.messages) {
      const { order, status } = message.body;
      await env.DB.prepare("INSERT OR IGNORE INTO order_log (id, order_id, status) VALUES (?, ?, ?)").bind(message.id, order, status).run();
      message.ack();
    }
  },
});

/** The object in which every lane lives. */
export class Lanes extends laneObject([orderChanges]) {}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const change = await request.json<OrderChange>();
    const idempotencyKey = request.headers.get("Idempotency-Key") ?? undefined;
    return Response.json(await laneOf(env, orderChanges, change.order).send(change, { idempotencyKey }), { status: 202 });
  },
};
