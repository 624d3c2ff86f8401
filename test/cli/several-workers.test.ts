import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { prepareDatabase } from "../../packages/millrace/cli/local/database.ts";
import { sourceDoors } from "../../packages/millrace/cli/local/doors.ts";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";
import { localToken } from "../../packages/millrace/cli/local/token.ts";
import { ROOT, WRANGLER } from "../../packages/millrace/cli/local/wrangler.ts";
import { runDev } from "../../packages/millrace/cli/local/wrangler-dev.ts";
import { checkout } from "../../packages/millrace/cli/project.ts";
import { bundled, prepared, running, runtimeOf } from "./bundled-workers.ts";
import { emptyFolder } from "./folder.ts";

/** Two Workers of one catalog: `orders` accepts orders and events, `shipping` ships. */
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

/** An upstream in a separate process, which counts the keys of each path. */
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

it("while one of two Workers with a shared catalog is stopped, the other continues; after a restart, waiting messages are processed once", async () => {
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
        is_external: false,
        workflows: ["place-order"],
        producers: [{ by: "request", name: "POST /v1/commands" }],
      },
      {
        name: "order-events",
        is_external: false,
        producers: [
          { by: "workflow", name: "place-order" },
          { by: "workflow", name: "ship-order" },
        ],
      },
      {
        ...{ name: "ship-commands", is_external: true, workflows: ["ship-order"] },
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
  // The keeper of orders has had many scans, and has not changed them.
  await new Promise((passed) => setTimeout(passed, 15_000));
  expect(await statuses()).toMatchObject({ ...stopped, "ship-order direct": "accepted" });
  expect((await list()).map(({ error }) => error)).toEqual((await list()).map(() => null));
  expect(counted("/reserve")).toEqual(once("/reserve", ["first", ...waiting]));
  expect(counted("/ship")).toEqual(once("/ship", ["first"]));
  const [doomed] = (await list()).filter(({ workflow, subject }) => workflow === "ship-order" && subject === "direct");
  expect(await ask(`/v1/instances/${doomed?.id}/cancel`, { reason: "Not needed." })).toMatchObject({ action_id: expect.any(String) });

  // After its start it does the waiting work.
  await runtime.setOptions(running([orders, shipping]));
  const done = Object.fromEntries(
    ["first", ...waiting].flatMap((order) => [
      [`place-order ${order}`, "complete"],
      [`ship-order ${order}`, "complete"],
    ]),
  );
  await until(async () => expect(await statuses()).toEqual({ ...done, "ship-order direct": "terminated" }));
  expect(counted("/ship")).toEqual(once("/ship", ["first", ...waiting]));
  expect(await ask("/v1/dead-letters")).toMatchObject({ items: [] });
});

/** Starts each Worker with its own `wrangler dev`, on one folder of state: see docs/several-workers.md. */
async function processes(workers: Record<string, [source: string, config: ReturnType<typeof configuration>]>) {
  const folder = emptyFolder();
  for (const [name, [source, config]] of Object.entries(workers)) {
    mkdirSync(join(folder, name));
    symlinkSync(join(ROOT, "node_modules"), join(folder, name, "node_modules"), "dir");
    writeFileSync(join(folder, name, "worker.ts"), source);
    writeFileSync(join(folder, name, "wrangler.jsonc"), JSON.stringify({ ...config, alias: sourceDoors() }));
  }
  const token = localToken(join(folder, "token"));
  await prepareDatabase(folder, { ...checkout(), config: join(folder, Object.keys(workers)[0] ?? "", "wrangler.jsonc") }, token);
  return async (name: string) => {
    // Wrangler keeps a killed Worker in its registry for 90 s. Until then, the next process gets no messages.
    rmSync(join(folder, "registry", name), { force: true });
    const port = await freePort();
    const alone = ["--ip", "127.0.0.1", "--inspector-port", "0", "--show-interactive-dev-session=false", "--port", String(port)];
    const url = `http://127.0.0.1:${port}`;
    const engine = runDev({
      ...{ url, token, folder, cwd: join(folder, name), lock: { holds() {}, release() {} } },
      args: [WRANGLER, "dev", "--config", join(folder, name, "wrangler.jsonc"), "--persist-to", join(folder, "state"), ...alone],
    });
    onTestFinished(() => engine.stop());
    expect(await engine.answers(60_000)).toBe(true);
    const ask = async (path: string, body?: object) => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const answer = await fetch(url + path, { headers, ...(body && { method: "POST", body: JSON.stringify(body) }) });
      expect(answer.status).toBeLessThan(300);
      return (await answer.json()) as unknown as Listed;
    };
    return {
      ask,
      place: (order: string) => vi.waitFor(() => ask("/v1/commands", { type: "order.place", payload: { order } }), { timeout: 60_000 }),
      kill: () => engine.kill9("everything"),
      statuses: async () =>
        Object.fromEntries((await ask("/v1/instances?limit=100")).items.map((one) => [`${one.workflow} ${one.subject}`, one.status])),
    };
  };
}

it("when one of two engine processes is killed, the other continues; after a restart, waiting messages are processed once", async () => {
  const { url, counted } = await outside();
  const start = await processes({
    orders: [ORDERS, configuration("orders", url, ["order-commands", "order-events"])],
    shipping: [SHIPPING, configuration("shipping", url, ["ship-commands"])],
  });
  const until = (check: () => Promise<void>) => vi.waitFor(check, { timeout: 60_000, interval: 250 });
  const are = (place: string, ship: string, names: readonly string[]) =>
    Object.fromEntries(
      names.flatMap((name) => [
        [`place-order ${name}`, place],
        [`ship-order ${name}`, ship],
      ]),
    );

  let orders = await start("orders");
  let shipping = await start("shipping");
  await orders.place("first");
  await until(async () => expect(await orders.statuses()).toEqual(are("complete", "complete", ["first"])));

  // Killed while it works: orders continues without it.
  const under = ["a", "b", "c", "d", "e", "f"];
  await Promise.all(under.map((order) => orders.place(order)));
  await until(async () => expect(Object.keys(counted("/ship")).length).toBeGreaterThan(1));
  await shipping.kill();
  const waiting = ["g", "h"];
  for (const order of waiting) await orders.place(order);
  await until(async () => {
    const some: string = expect.any(String);
    expect(await orders.statuses()).toMatchObject({ ...are(some, some, under), ...are("waiting", "accepted", waiting) });
    expect(counted("/reserve")).toEqual(once("/reserve", ["first", ...under, ...waiting]));
  });

  // Started again, it ships all orders without the Worker that placed them, and accepts another one for it.
  shipping = await start("shipping");
  await orders.kill();
  await shipping.place("last");
  await until(async () => expect(counted("/ship")).toEqual(once("/ship", ["first", ...under, ...waiting])));
  await until(async () => expect(await shipping.statuses()).toMatchObject({ "place-order last": "accepted" }));
  expect(counted("/reserve")).toEqual(once("/reserve", ["first", ...under, ...waiting]));

  orders = await start("orders");
  const all = ["first", ...under, ...waiting, "last"];
  await until(async () => expect(await orders.statuses()).toEqual(are("complete", "complete", all)));
  expect(counted("/")).toEqual({ ...once("/reserve", all), ...once("/ship", all) });
  await until(async () => expect(await orders.ask("/v1/dead-letters")).toMatchObject({ items: [] }));
});
