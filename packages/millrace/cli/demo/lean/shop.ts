import { defineCommand, defineConsumer, defineQueue, defineStep, defineWorkflow, type EffectCall, type StepMode } from "millrace";
import * as z from "zod";

const orderCommands = defineQueue({ name: "order-commands" });

/** Has somebody outside do something for an order. All of them honour an idempotency key. */
const askFor = (kind: string) =>
  defineStep({
    effect: "keyed",
    // What the local platform was at when it was killed, it tries again after this pause.
    retries: { limit: 5, delay: 200, backoff: "exponential" },
    async run({ input, key, env, fetch }: EffectCall<{ order: string }>) {
      const { OUTSIDE_URL } = env as unknown as { OUTSIDE_URL: string };
      const headers = { "idempotency-key": key };
      const answer = await fetch(`${OUTSIDE_URL}/${kind}`, { method: "POST", headers, body: JSON.stringify(input) });
      if (!answer.ok) throw new Error(`It answered ${answer.status}.`);
      return answer.json<{ id: string }>();
    },
  });

const reserveStock = askFor("reservations");
const bookCourier = askFor("bookings");
const sendMail = askFor("mails");

/** One chain, whatever its mode: three effects and a commit. */
function shipOrder(mode: StepMode) {
  return defineWorkflow({
    name: `ship-${mode}`,
    on: defineCommand({
      type: `order.ship.${mode}`,
      payload: z.object({ order: z.string().min(1).max(64) }),
      key: ({ order }) => order,
      subject: ({ order }) => order,
      queue: orderCommands,
    }),
    steps: mode,
    async run({ payload: { order }, step }) {
      await step.effect("reserve stock", reserveStock, { order });
      const { id } = await step.effect("book courier", bookCourier, { order });
      await step.effect("send mail", sendMail, { order });
      return step.commit("mark shipped", () => ({ output: id }));
    },
  });
}

export const shipOnPlatform = shipOrder("platform");
export const shipLean = shipOrder("lean");

export const shopConsumers = [defineConsumer({ queue: orderCommands, starts: [shipOnPlatform, shipLean] })];
