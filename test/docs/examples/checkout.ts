import {
  defineCommand,
  defineConsumer,
  defineEvent,
  defineQueue,
  defineStep,
  defineWorkflow,
  type EffectCall,
  type EngineEnv,
  enqueueOne,
  millrace,
  on,
  sql,
  start,
  upstreamRefused,
} from "millrace";
import * as z from "zod";
import { sendMail } from "./steps.ts";

const order = z.object({ order_id: z.string().min(1).max(64), cents: z.int().positive(), to: z.email() });
const key = ({ order_id }: { order_id: string }) => order_id;
const queue = defineQueue({ name: "checkout-commands" });
const events = defineQueue({ name: "checkout-events" });

/** Charge an order. */
const OrderCharge = defineCommand({ type: "checkout.charge", payload: order, key, subject: key, queue });
/** An order was charged. */
const OrderCharged = defineEvent({ type: "checkout.charged", payload: order, subject: key, queue: events });

const charge = defineStep({
  effect: "keyed",
  async run({ input, key, fetch }: EffectCall<{ order_id: string; cents: number }>) {
    const request = { method: "POST", headers: { "idempotency-key": key }, body: JSON.stringify(input) };
    const answer = await fetch("https://bank.example.com/charges", request);
    if (answer.ok) return answer.json<{ id: string }>();
    const text = `The bank answered ${answer.status}.`;
    throw answer.status < 500 ? upstreamRefused(text, answer.status) : new Error(text);
  },
});

export const chargeOrder = defineWorkflow({
  name: "charge-order",
  on: OrderCharge,
  async run({ payload, step }) {
    const { order_id, cents } = payload;
    const record = ({ id }: { id: string }) => ({
      statements: [sql`UPDATE checkouts SET charge = ${id} WHERE order_id = ${order_id}`],
      emit: [OrderCharged.from(payload)],
    });
    await step.effect("charge", charge, { order_id, cents }, { record });
  },
});

export const mailReceipt = defineWorkflow({
  name: "mail-receipt",
  on: OrderCharged,
  run: ({ payload: { order_id, to }, step }) => step.effect("mail", sendMail, { to, text: `Order ${order_id} is paid.` }),
});

export const checkoutConsumers = [
  defineConsumer({ queue, starts: [chargeOrder] }),
  defineConsumer({ queue: events, routes: [on(OrderCharged, start(mailReceipt))] }),
];

/** After: the request writes its row and the command in one batch, and answers. */
const shop = millrace<EngineEnv>({
  consumers: checkoutConsumers,
  async fetch(request, env): Promise<Response> {
    const payload = await request.json<z.infer<typeof order>>();
    const row = sql`INSERT INTO checkouts (order_id) VALUES (${payload.order_id})`;
    const by = { tenantId: "acme", source: "shop" };
    const { instanceId, replayed } = await enqueueOne(env, shop.catalog, by, { command: OrderCharge, payload }, [row]);
    return Response.json({ instance_id: instanceId, replayed }, { status: 202 });
  },
});
export const { Runs, Recorder, Keeper } = shop;
export default shop.handler;
