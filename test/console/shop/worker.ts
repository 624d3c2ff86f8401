// An engine with features that the app does not use: a lane in front of a workflow (the changes of an order are made in sequence), a step
// that can have an unknown outcome, a lock, a limit and bulk actions.

import { defineCommand, defineConsumer, defineStep, defineWorkflow, notRetryable } from "millrace";
import { engineRoutes } from "millrace/http";
import { defineLaneQueue, engineLanes } from "millrace/lanes";
import { limitOf } from "millrace/limits";
import { withLock } from "millrace/locks";
import { armKeeper, BulkActionRun, bulkAction, catalog, dispatch, entrypoint, keeper } from "millrace/worker";
import * as z from "zod";
import type { LimitEnv } from "../../../packages/millrace/src/limits/client.ts";
import type { LockEnv } from "../../../packages/millrace/src/locks/client.ts";

const orders = defineLaneQueue({ name: "orders" });

/**
 * The command to change an order. The warehouse does not make a `refused` change; the letter of a `lost` one is cut off after its request;
 * the letter of a `torn` one cannot be recorded. A `slow` change stays at two of five parcels for a while.
 */
const OrderChange = defineCommand({
  type: "order.change",
  payload: z.object({
    order: z.string().min(1),
    change: z.int(),
    refused: z.boolean().default(false),
    lost: z.boolean().default(false),
    torn: z.boolean().default(false),
    slow: z.boolean().default(false),
  }),
  key: ({ order, change }) => `${order}/${change}`,
  subject: ({ order }) => order,
  queue: orders,
});

const tellWarehouse = defineStep<{ refused: boolean; slow: boolean }, { parcels: number }>({
  effect: "natural",
  async run({ input, progress }) {
    if (input.slow) progress({ done: 2, of: 5, text: "parcels" });
    if (input.slow) await new Promise((over) => setTimeout(over, 8000));
    if (input.refused) throw notRetryable("The warehouse has packed this order.", 409);
    return { parcels: 5 };
  },
});

/** Writes to the customer; a duplicate letter would be a nuisance. */
const writeLetter = defineStep<{ to: string; lost: boolean }, { sent: boolean }>({
  effect: "once",
  output: z.object({ sent: z.boolean() }),
  async run({ input }) {
    if (input.lost) throw new Error("The post office answered 502. Whether it sent is unknown.");
    return { sent: true };
  },
});

const changeOrder = defineWorkflow({
  name: "change-order",
  on: OrderChange,
  async run({ payload: { order, refused, lost, torn, slow }, step }) {
    const { parcels } = await step.effect("tell the warehouse", tellWarehouse, { refused, slow });
    if (parcels === 0) return;
    const record = () => {
      if (torn) throw new Error("The letter book has no page left.");
      return {};
    };
    await step.effect("write to the customer", writeLetter, { to: order, lost }, { record });
  },
});

const app = catalog({
  consumers: [
    defineConsumer({ queue: orders, starts: [changeOrder], onFailure: "hold" }),
    defineConsumer({ queue: BulkActionRun.queue, starts: [bulkAction] }),
  ],
});

export { RateLimit } from "millrace/limits";
export { Lock } from "millrace/locks";
export { Recorder } from "millrace/worker";
export class Keeper extends keeper({ catalog: app }) {}
export class Lanes extends engineLanes(app) {}
export class ChangeOrder extends entrypoint(changeOrder, app) {}
export class BulkAction extends entrypoint(bulkAction, app) {}

const api = engineRoutes(app);
const consume = dispatch(app);

/** The owner and name of the held lock, and of the used limit. */
interface Held {
  tenant: string;
  name: string;
}

/** Uses a limit until it is full, and holds a lock until it is broken. */
async function hold({ tenant: tenantId, name }: Held, env: LimitEnv & LockEnv, ctx: ExecutionContext): Promise<void> {
  const limit = limitOf(env, name, [{ limit: 20, periodMs: 60_000 }], { tenantId });
  await limit.take(15);
  await limit.heed({ status: 429, headers: { "retry-after": "600" } });
  const { promise: isHeld, resolve } = Promise.withResolvers<void>();
  const untilBroken = withLock(env, name, { tenantId, holder: "the till", ttl: "1 second" }, ({ signal }) => {
    resolve();
    return new Promise((end) => signal.addEventListener("abort", end));
  });
  ctx.waitUntil(untilBroken.catch(() => {}));
  await isHeld;
}

export default {
  /** `POST /hold` is a route of the shop, not of the engine. */
  async fetch(request, env, ctx) {
    armKeeper(env, ctx);
    if (new URL(request.url).pathname !== "/hold") return api.fetch(request, env, ctx);
    await hold(await request.json(), env as unknown as LimitEnv & LockEnv, ctx);
    return new Response(null, { status: 204 });
  },
  queue: (batch, env) => consume(batch, env),
} satisfies ExportedHandler<Env>;
