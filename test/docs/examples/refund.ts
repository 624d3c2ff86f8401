import { defineCommand, defineQueue, defineStep, defineWorkflow, type EffectCall, sql, upstreamRefused } from "millrace";
import * as z from "zod";

/** Give an order's money back. */
const OrderRefund = defineCommand({
  type: "order.refund",
  payload: z.object({ order_id: z.string().min(1).max(64), cents: z.int().positive() }),
  key: ({ order_id }) => order_id,
  subject: ({ order_id }) => order_id,
  queue: defineQueue({ name: "refund-commands" }),
});

const PAYOUTS = "https://bank.example.com/payouts";

/** Sends the money; its undo stops it. */
const payOut = defineStep({
  effect: "keyed",
  run: async ({ input, key, fetch }: EffectCall<{ order: string; cents: number }>) =>
    read<{ id: string }>(await fetch(PAYOUTS, { method: "POST", headers: { "idempotency-key": key }, body: JSON.stringify(input) })),
  undo: {
    effect: "natural",
    run: async ({ input: { output }, fetch }) => read<{ state: string }>(await fetch(`${PAYOUTS}/${output.id}`, { method: "DELETE" })),
  },
});

async function read<Answer>(answer: Response): Promise<Answer> {
  if (answer.ok) return answer.json<Answer>();
  const said = `The bank answered ${answer.status}.`;
  throw answer.status < 500 ? upstreamRefused(said, answer.status) : new Error(said);
}

/** Refunds an order. A large refund needs an approval. */
export const refundOrder = defineWorkflow({
  name: "refund-order",
  on: OrderRefund,
  async run({ payload: { order_id, cents }, step }) {
    if (cents > 10_000) {
      const { approved, by, reason } = await step.approve("approve refund", {
        question: `Give back ${(cents / 100).toFixed(2)} for order ${order_id}?`,
        details: { order_id, cents },
        timeout: "2 days",
      });
      if (!approved) return { refunded: false, because: by === null ? "nobody answered in time" : reason };
    }

    const setState = (state: string) => ({ statements: [sql`UPDATE orders SET refund = ${state} WHERE id = ${order_id}`] });
    const payout = { order: order_id, cents };
    await step.effect("pay out", payOut, payout, { record: () => setState("paid"), undo: () => setState("stopped") });
    return { refunded: true };
  },
});
