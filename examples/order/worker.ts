import { defineStep, defineWorkflow, type EffectCall, millrace, notRetryable } from "millrace";
import * as z from "zod";

interface Made {
  id: string;
}

/** Sends a request with the step's key, and reads the answer. Below 500, the shop has done nothing. */
async function post(path: string, body: object, { env, key, fetch }: EffectCall<unknown>): Promise<Made> {
  const { SHOP_URL } = env as unknown as { SHOP_URL: string };
  const answer = await fetch(SHOP_URL + path, { method: "POST", headers: { "idempotency-key": key }, body: JSON.stringify(body) });
  if (answer.status < 500 && !answer.ok) throw notRetryable(`${path} answered ${answer.status}: ${await answer.text()}`, answer.status);
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}.`);
  return answer.json<Made>();
}

/** The undo of a step gets the input and the output of the step. */
const undoAt = (path: string) => ({
  effect: "keyed" as const,
  run: (call: EffectCall<{ input: object; output: Made }>) => post(path, { id: call.input.output.id }, call),
});

const charge = defineStep({
  effect: "keyed",
  run: (call: EffectCall<{ order: string; cents: number }>) => post("/charges", call.input, call),
  undo: undoAt("/refunds"),
});

const bookCourier = defineStep({
  effect: "keyed",
  run: (call: EffectCall<{ order: string; address: string }>) => post("/bookings", call.input, call),
  undo: undoAt("/returns"),
});

/** Charges an order, then sends it. For 14 days the order can be cancelled. */
const order = defineWorkflow({
  name: "order",
  input: z.object({ order: z.string().min(1), cents: z.int().min(1), address: z.string().min(1) }),
  key: ({ order }) => order,
  async run({ input: { order, cents, address }, step }) {
    await step.effect("charge", charge, { order, cents });
    const { id } = await step.effect("book courier", bookCourier, { order, address });
    await step.sleep("time to cancel", "14 days");
    return { sent: id };
  },
});

/** Stands in for the bank and the courier: the courier does not know the address "nowhere". */
async function shop(request: Request): Promise<Response> {
  if (request.method !== "POST") return new Response("There is no such page.", { status: 404 });
  const { address } = await request.json<{ address?: string }>();
  if (address === "nowhere") return new Response("there is no such address", { status: 422 });
  return Response.json({ id: request.headers.get("idempotency-key") });
}

export const { handler, Runs, Recorder, Keeper } = millrace({ workflows: [order], fetch: shop });
export default handler;
