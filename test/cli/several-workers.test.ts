import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished, vi } from "vitest";
import { bundled, prepared, running, runtimeOf } from "./bundled-workers.ts";

/** Two Workers of one catalog. `orders` takes orders and events, `shipping` ships. */
const SHARED = `import { defineCommand, defineConsumer, defineEvent, defineQueue, defineStep, defineWorkflow, millrace, on, send, signal } from "millrace";
import * as z from "zod";
const orderQueue = defineQueue({ name: "order-commands" });
const shipQueue = defineQueue({ name: "ship-commands" });
const events = defineQueue({ name: "order-events" });
const payload = z.object({ order: z.string() });
const named = { payload, key: ({ order }) => order, subject: ({ order }) => order };
const Place = defineCommand({ type: "order.place", ...named, queue: orderQueue });
const Ship = defineCommand({ type: "order.ship", ...named, queue: shipQueue });
const Placed = defineEvent({ type: "order.placed", payload, subject: named.subject, queue: events });
const Shipped = defineEvent({ type: "order.shipped", payload, subject: named.subject, queue: events });
const tell = defineStep({
  effect: "keyed",
  run: async ({ input, key, fetch, env }) => {
    const answer = await fetch(env.OUTSIDE + input, { method: "POST", headers: { "idempotency-key": key } });
    if (!answer.ok) throw new Error("The outside answered " + answer.status);
  },
});
const placeOrder = defineWorkflow({
  name: "place-order",
  on: Place,
  async run({ payload: { order }, step }) {
    await step.effect("reserve", tell, "/reserve/" + order, { record: () => ({ emit: [Placed.from({ order })] }) });
    await step.waitFor("wait for the parcel", Shipped, { subject: order, timeout: "1 day" });
  },
});
const shipOrder = defineWorkflow({
  name: "ship-order",
  on: Ship,
  async run({ payload: { order }, step }) {
    await step.effect("ship", tell, "/ship/" + order, { record: () => ({ emit: [Shipped.from({ order })] }) });
  },
});
const ordering = defineConsumer({ queue: orderQueue, starts: [placeOrder] });
const shipping = defineConsumer({ queue: shipQueue, starts: [shipOrder] });
const following = defineConsumer({ queue: events, routes: [on(Placed, send(Ship, (placed) => placed)), on(Shipped, signal())] });
`;

const ORDERS = `${SHARED}export const { handler, Runs, Recorder, Keeper } = millrace({ consumers: [ordering, following], elsewhere: [shipping] });
export default handler;`;
const SHIPPING = `${SHARED}export const { handler, Runs, Recorder, Keeper } = millrace({ consumers: [shipping], elsewhere: [ordering, following] });
export default handler;`;

const QUEUES = ["order-commands", "ship-commands", "order-events"];

const configuration = (name: string, outside: string, consumed: string[]) => ({
  name,
  main: "worker.ts",
  compatibility_date: "2026-10-01",
  compatibility_flags: ["nodejs_compat", "queue_consumer_no_wait_for_wait_until"],
  vars: { MILLRACE_KEY: "test", OUTSIDE: outside, KEEPER_PERIOD_MS: "500" },
  d1_databases: [{ binding: "DB", database_name: "shared", database_id: "shared" }],
  r2_buckets: [{ binding: "PAYLOADS", bucket_name: "shared-payloads" }],
  exports: {
    Recorder: { type: "durable-object", storage: "sqlite" },
    Keeper: { type: "durable-object", storage: "sqlite" },
    Runs: { type: "workflow", name: `${name}-runs` },
  },
  queues: {
    producers: QUEUES.map((queue) => ({ binding: queue.replaceAll("-", "_").toUpperCase(), queue })),
    consumers: consumed.flatMap((queue) => [
      { queue, max_batch_size: 10, max_batch_timeout: 0, max_retries: 3, dead_letter_queue: `${queue}-dlq` },
      { queue: `${queue}-dlq`, max_batch_size: 100, max_batch_timeout: 1, max_retries: 100 },
    ]),
  },
});

/** The outside: a process of no Worker, which counts the keys of each path. */
async function outside() {
  const calls = new Map<string, Set<string>>();
  const server = createServer((request, response) => {
    const { url = "" } = request;
    calls.set(url, (calls.get(url) ?? new Set()).add(String(request.headers["idempotency-key"])));
    response.end();
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => void server.close());
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** The paths that were called, each with its number of different keys. */
    counted: (what: string) =>
      Object.fromEntries([...calls].filter(([path]) => path.startsWith(what)).map(([path, keys]) => [path, keys.size])),
  };
}

interface Listed {
  items: { id: string; workflow: string; status: string; subject: string; error: unknown }[];
}

const once = (what: string, orders: readonly string[]) => Object.fromEntries(orders.map((order) => [`${what}/${order}`, 1]));

it("two Workers of one catalog: while one is stopped the other continues; after its start, waiting work is done once", async () => {
  const { url, counted } = await outside();
  const orders = bundled(ORDERS, configuration("orders", url, ["order-commands", "order-events"]));
  const shipping = bundled(SHIPPING, configuration("shipping", url, ["ship-commands"]));
  const runtime = await runtimeOf(orders, shipping);
  const { ask } = await prepared(runtime, "orders");
  const place = (order: string, worker?: string) => ask("/v1/commands", { type: "order.place", payload: { order } }, worker);
  const list = async (worker?: string) => ((await ask("/v1/instances?limit=100", undefined, worker)) as unknown as Listed).items;
  const statuses = async (worker?: string) =>
    Object.fromEntries((await list(worker)).map(({ workflow, subject, status }) => [`${workflow} ${subject}`, status]));
  const until = (check: () => Promise<void>) => vi.waitFor(check, { timeout: 90_000, interval: 500 });

  await place("first");
  await until(async () => expect(await statuses()).toEqual({ "place-order first": "complete", "ship-order first": "complete" }));
  expect(await ask("/v1/catalog")).toMatchObject({
    queues: [
      {
        name: "order-commands",
        is_elsewhere: false,
        workflows: ["place-order"],
        producers: [{ by: "request", name: "POST /v1/commands" }],
      },
      {
        name: "order-events",
        is_elsewhere: false,
        producers: [
          { by: "workflow", name: "place-order" },
          { by: "workflow", name: "ship-order" },
        ],
      },
      {
        ...{ name: "ship-commands", is_elsewhere: true, workflows: ["ship-order"] },
        producers: [
          { by: "request", name: "POST /v1/commands" },
          { by: "route", name: "order.placed" },
        ],
      },
    ],
  });

  // Shipping is stopped: its commands wait, as rows and in its queue.
  await runtime.setOptions(running([orders]));
  const waiting = ["second", "third", "fourth"];
  for (const order of waiting) await place(order);
  await ask("/v1/commands", { type: "order.ship", payload: { order: "direct" } });
  const stopped = Object.fromEntries(
    waiting.flatMap((order) => [
      [`place-order ${order}`, "waiting"],
      [`ship-order ${order}`, "accepted"],
    ]),
  );
  await until(async () => expect(await statuses()).toMatchObject({ ...stopped, "ship-order direct": "accepted" }));
  // The keeper of orders has had many rounds, and has left them alone.
  await new Promise((passed) => setTimeout(passed, 15_000));
  expect(await statuses()).toMatchObject({ ...stopped, "ship-order direct": "accepted" });
  expect((await list()).map(({ error }) => error)).toEqual((await list()).map(() => null));
  expect(counted("/reserve")).toEqual(once("/reserve", ["first", ...waiting]));
  expect(counted("/ship")).toEqual(once("/ship", ["first"]));
  const [doomed] = (await list()).filter(({ workflow, subject }) => workflow === "ship-order" && subject === "direct");
  expect(await ask(`/v1/instances/${doomed?.id}/cancel`, { reason: "Not needed." })).toMatchObject({ action_id: expect.any(String) });

  // Started again, it does the waiting work.
  await runtime.setOptions(running([orders, shipping]));
  const done = Object.fromEntries(
    ["first", ...waiting].flatMap((order) => [
      [`place-order ${order}`, "complete"],
      [`ship-order ${order}`, "complete"],
    ]),
  );
  await until(async () => expect(await statuses()).toEqual({ ...done, "ship-order direct": "terminated" }));
  expect(counted("/ship")).toEqual(once("/ship", ["first", ...waiting]));

  // Orders is stopped: shipping accepts commands by its own API, and its events wait.
  await runtime.setOptions(running([shipping]));
  expect(await place("fifth", "shipping")).toMatchObject({ replayed: false });
  await ask("/v1/commands", { type: "order.ship", payload: { order: "sixth" } }, "shipping");
  await until(async () =>
    expect(await statuses("shipping")).toMatchObject({ "place-order fifth": "accepted", "ship-order sixth": "complete" }),
  );
  await runtime.setOptions(running([orders, shipping]));
  await until(async () => expect(await statuses()).toMatchObject({ "place-order fifth": "complete", "ship-order fifth": "complete" }));
  expect(counted("/")).toEqual({
    ...once("/reserve", ["first", ...waiting, "fifth"]),
    ...once("/ship", ["first", ...waiting, "fifth", "sixth"]),
  });
  expect(await ask("/v1/dead-letters")).toMatchObject({ items: [] });
});
