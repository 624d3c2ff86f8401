import { defineWorkflow, type EngineEnv, enqueueOne, millrace, sql } from "millrace";
import * as z from "zod";

/** Sends a paid order. */
const fulfil = defineWorkflow({
  name: "fulfil-order",
  input: z.object({ order_id: z.string().min(1).max(64) }),
  key: ({ order_id }) => order_id,
  async run({ input, step }) {
    await step.commit("pick", () => ({ output: { picked: input.order_id } }));
  },
});

export const shop = millrace<EngineEnv>({
  workflows: [fulfil],
  // The return type is annotated, because `shop` is used in the function that makes it.
  async fetch(request, env): Promise<Response> {
    const { searchParams } = new URL(request.url);
    const order_id = searchParams.get("order") ?? "";
    const paid = sql`INSERT INTO payments (order_id, paid_at) VALUES (${order_id}, ${sql.now})`;
    const by = { tenantId: "acme", source: "checkout" };
    const accepted = await enqueueOne(env, shop.catalog, by, { command: fulfil.command, payload: { order_id } }, [paid]);
    return Response.json({ instance_id: accepted.instanceId, replayed: accepted.replayed }, { status: 202 });
  },
});
