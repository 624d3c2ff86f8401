import { createExecutionContext, createMessageBatch, createScheduledController, getQueueResult } from "cloudflare:test";
import { defineConsumer, defineQueue, defineWorkflow, enqueueOne, millrace } from "millrace";
import { instances } from "millrace/operate";
import { expect, it, vi } from "vitest";
import * as z from "zod";
import { fresh, operator, probeEnv } from "../harness.ts";

const input = z.object({ name: z.string() });
const keyed = defineWorkflow({ name: "greet-all", input, key: ({ name }) => name, run: async ({ input: { name } }) => ({ said: name }) });
const keyless = defineWorkflow({ name: "note", input, run: async () => undefined });
const by = { tenantId: "acme", source: "test" };
/** Bindings that the probe Worker does not have. */
const bound = { PROBE: probeEnv.PROBE, MILLRACE_QUEUE: probeEnv.PROBE_COMMANDS };
const env = { ...probeEnv, GREET_ALL: bound.PROBE, NOTE: bound.PROBE, MILLRACE_QUEUE: bound.MILLRACE_QUEUE };

it("a workflow with an input has a command of its own name, on the queue millrace, with the key as subject", () => {
  expect(keyed.command).toMatchObject({ kind: "command", type: "greet-all", version: 1, queue: { name: "millrace" } });
  expect(keyed.command.from({ name: "Ada" })).toMatchObject({ type: "greet-all", key: "Ada", subject: "Ada", payload: { name: "Ada" } });
  const { catalog } = millrace({ workflows: [keyed, keyless] });
  expect(catalog.performer("greet-all")).toBe(keyed);
  expect(catalog.consumers).toMatchObject([{ queue: { name: "millrace" }, starts: [{ name: "greet-all" }, { name: "note" }] }]);
});

it("a command without a key function is refused unless the caller sends an idempotency key", async () => {
  const { catalog } = millrace({ workflows: [keyless] });
  const request = { command: keyless.command, payload: { name: fresh() } };
  await expect(enqueueOne(env, catalog, by, request)).rejects.toMatchObject({
    code: "invalid_payload",
    message: expect.stringContaining("pass an idempotency key"),
    detail: { issues: [{ path: "idempotency_key", message: "is missing" }] },
  });
  expect(await enqueueOne(env, catalog, by, { ...request, idempotencyKey: fresh() })).toMatchObject({ replayed: false });
  expect(keyless.command.from(request.payload)).toMatchObject({ key: undefined, subject: "note" });
});

const WRONG: [what: string, definition: object, says: string][] = [
  ["an input that is not a schema", { name: "note", input: {}, run: async () => 1 }, "must be a zod 4 schema"],
  ["a key that is not a function", { name: "note", input, key: "name", run: async () => 1 }, "must be a function"],
  ["no run function", { name: "note", input }, "needs `run`"],
  ["no input and no message", { name: "note", run: async () => 1 }, "or an `input`"],
];

it.each(WRONG)("the definition of a workflow with %s is refused", (_, definition, message) => {
  const refused = expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(message) });
  expect(() => defineWorkflow(definition as never)).toThrow(refused);
});

it("a consumer that the app declares keeps its options, and gets the workflows of its queue", () => {
  const consumer = defineConsumer({ queue: defineQueue({ name: "millrace" }), starts: [keyless], concurrency: 2 });
  const { catalog } = millrace({ workflows: [keyed, keyless], consumers: [consumer] });
  expect(catalog.consumers).toMatchObject([{ concurrency: 2, starts: [{ name: "note" }, { name: "greet-all" }] }]);
});

it("the app gets the requests, batches and cron triggers that are not the engine's, and no others", async () => {
  const [fetch, queue, scheduled] = [vi.fn(async () => new Response("app")), vi.fn(), vi.fn()];
  const { handler } = millrace<typeof env>({ workflows: [keyed], fetch, queue, scheduled });
  const get = async (path: string) => (await handler.fetch(new Request(`http://localhost${path}`), env, createExecutionContext())).text();
  expect([await get("/"), await get("/v1/orders"), await get("/consoles")]).toEqual(["app", "app", "app"]);
  expect(JSON.parse(await get("/healthz"))).toMatchObject({ ok: true });
  expect(JSON.parse(await get("/v1/instances"))).toMatchObject({ code: "unauthorized" });
  expect(fetch).toHaveBeenCalledTimes(3);

  const ctx = createExecutionContext();
  const mine = createMessageBatch("mine", [{ id: "a", timestamp: new Date(), body: {}, attempts: 1 }]);
  await handler.queue(mine, env, ctx);
  expect(queue.mock.calls).toEqual([[mine, env, ctx]]);
  const ours = createMessageBatch("millrace", [{ id: "a", timestamp: new Date(), body: {}, attempts: 1 }]);
  await handler.queue(ours, env, ctx);
  expect(queue).toHaveBeenCalledTimes(1);
  expect(await getQueueResult(ours, ctx)).toMatchObject({ explicitAcks: ["a"] });

  await handler.scheduled(createScheduledController(), env, ctx);
  expect(scheduled).toHaveBeenCalledTimes(1);
});

it("the engine ignores a batch of another environment's queue with a name that ends like one of its own", async () => {
  const queue = vi.fn();
  const { handler } = millrace<typeof env & { QUEUE_PREFIX: string }>({ workflows: [keyed], queue });
  const staging = { ...env, QUEUE_PREFIX: "staging-" };
  const batch = (name: string) => createMessageBatch(name, [{ id: "a", timestamp: new Date(), body: {}, attempts: 1 }]);
  const ctx = createExecutionContext();
  for (const name of ["millrace", "other-millrace", "staging-staging-millrace"]) await handler.queue(batch(name), staging, ctx);
  expect(queue).toHaveBeenCalledTimes(3);
  await handler.queue(batch("staging-millrace"), staging, ctx);
  await handler.queue(batch("staging-millrace-dlq"), staging, ctx);
  expect(queue).toHaveBeenCalledTimes(3);
});

it("an accepted instance that cannot start in this deployment shows the reason as its error", async () => {
  const { catalog } = millrace({ workflows: [keyed] });
  const { instanceId: id } = await enqueueOne(env, catalog, by, { command: keyed.command, payload: { name: fresh() }, delaySeconds: 600 });
  const shown = async (of: object, known = catalog) => (await instances.describe(of as typeof env, operator, id, known)).error;
  expect(await shown(env)).toBeNull();
  const { GREET_ALL: _, ...bare } = env;
  expect(await shown(bare)).toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining('"greet-all" is not bound. Export Runs'),
  });
  const later = millrace({ workflows: [keyless] }).catalog;
  expect(await shown(env, later)).toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining('has no workflow "greet-all"'),
  });
});

it("the log names a workflow and a queue without a binding, once per isolate", async () => {
  const logged = vi.spyOn(console, "error").mockImplementation(() => {});
  const { handler } = millrace<object>({ workflows: [keyed] });
  const bare = { ...probeEnv, MILLRACE_QUEUE: undefined, QUEUE_PREFIX: "staging-" };
  for (let time = 0; time < 2; time++) await handler.fetch(new Request("http://localhost/healthz"), bare, createExecutionContext());
  const lines = logged.mock.calls.map(([line]) => JSON.parse(String(line))).filter(({ log }) => log === "config_invalid");
  logged.mockRestore();
  expect(lines).toMatchObject([
    { error: expect.stringContaining('"greet-all" is not bound. Export Runs of millrace') },
    { error: expect.stringContaining('{"binding": "MILLRACE_QUEUE", "queue": "staging-millrace"}') },
  ]);
});
