import { defineCommand, defineConsumer, defineQueue, defineStep, defineWorkflow, type EffectCall, notRetryable } from "millrace";
import { BulkActionRun, bulkAction } from "millrace/worker";
import * as z from "zod";
import type { Done } from "../../../packages/millrace/src/guard/step.ts";

const orderCommands = defineQueue({ name: "order-commands" });

/** The command to ship an order. */
const OrderShip = defineCommand({
  type: "order.ship",
  payload: z.object({ order: z.string().min(1).max(64), to: z.string().min(1).max(200), pieces: z.int().min(1).max(1000) }),
  key: ({ order }) => order,
  subject: ({ order }) => order,
  queue: orderCommands,
});

/** A request to an upstream, and its response. Its error reports whether an effect happened. */
async function ask<Answer>(what: string, body: object, { env, key, fetch }: EffectCall<unknown>): Promise<Answer> {
  const { OUTSIDE_URL } = env as unknown as { OUTSIDE_URL: string };
  const headers = { "idempotency-key": key };
  const answer = await fetch(`${OUTSIDE_URL}/${what}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (answer.ok) return answer.json<Answer>();
  const { error } = await answer.json<{ error: string }>();
  if (answer.status < 500) throw notRetryable(`${error} Nothing was done for ${(body as { order: string }).order}.`, answer.status);
  throw new Error(`${error} Whether the request had an effect is unknown.`);
}

interface Made {
  id: string;
}

/** Reserves the items of an order; the `undo` handler releases them. */
const reserveStock = defineStep({
  effect: "keyed",
  run: (call: EffectCall<{ order: string; pieces: number }>) => ask<Made>("reservations", call.input, call),
  undo: {
    effect: "natural",
    run: (call: EffectCall<Done<{ order: string }, Made>>) =>
      ask<Made>("releases", { order: call.input.input.order, of: call.input.output.id }, call),
  },
});

const bookCourier = defineStep({
  effect: "keyed",
  run: (call: EffectCall<{ order: string; to: string }>) => ask<Made>("bookings", call.input, call),
});

/** Writes to the customer. A mail cannot be looked up afterwards, and a duplicate is harmless. */
const sendMail = defineStep({
  effect: "once",
  output: z.object({ id: z.string() }),
  run: (call: EffectCall<{ order: string; text: string }>) => ask<Made>("mails", call.input, call),
});

/** The maximum of pieces without approval. */
const SMALL = 100;

export const shipOrder = defineWorkflow({
  name: "ship-order",
  on: OrderShip,
  async run({ payload: { order, to, pieces }, step }) {
    await step.effect("reserve stock", reserveStock, { order, pieces });
    if (pieces > SMALL) {
      const { approved } = await step.approve("agree", { question: `Ship ${pieces} pieces to ${to}?`, details: { order } });
      if (!approved) return { shipped: false };
    }
    const booking = await step.effect("book courier", bookCourier, { order, to });
    await step.effect("send mail", sendMail, { order, text: `Your order ${order} is on its way as ${booking.id}.` });
    return { shipped: true };
  },
});

/** The shop's orders, and actions on many of them at once. */
export const shopConsumers = [
  defineConsumer({ queue: orderCommands, starts: [shipOrder] }),
  defineConsumer({ queue: BulkActionRun.queue, starts: [bulkAction] }),
];
