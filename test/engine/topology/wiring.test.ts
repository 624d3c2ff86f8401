import { defineCommand, defineConsumer, defineEvent, defineQueue, defineWorkflow, on, send, start } from "millrace";
import { catalog } from "millrace/worker";
import { expect, it } from "vitest";
import * as z from "zod";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import type { ConsumerDefinition } from "../../../packages/millrace/src/topology/consumer.ts";
import { routesOf, startsOf } from "../../probe/consumers.ts";
import { ProbeRequested, ProbeSignal } from "../../probe/messages.ts";
import { app } from "../../probe/worker.ts";
import { probeEnv, rows } from "../harness.ts";

const payload = z.object({ name: z.string() });
const name = ({ name }: { name: string }) => name;
const asked = (type: string, queue = ProbeRequested.queue) => defineCommand({ type, payload, key: name, subject: name, queue });
const workflow = (name: string, on: ReturnType<typeof asked>) => defineWorkflow({ name, on, run: async () => undefined });
const by = { tenantId: "acme", source: "test" };

it("a command of a workflow without a binding is refused, the error names the line to add, and nothing is stored", async () => {
  const app = catalog({ consumers: [startsOf(workflow("never-bound", asked("probe.unbound")))] });
  const [answer] = await acceptCommands(probeEnv, app, by, [{ type: "probe.unbound", payload: { name: "unbound" } }]);
  expect(answer).toMatchObject({
    code: "config_invalid",
    message:
      '"never-bound" is not bound. Export Runs of millrace({ … }) from the Worker\'s main file, and add this line to "exports" in wrangler.jsonc: ' +
      '"Runs": {"type": "workflow", "name": "<the Worker\'s name>-runs"}. ' +
      'For a class of the workflow alone, add this line to "workflows": {"binding": "NEVER_BOUND", "name": "never-bound", "class_name": "NeverBound"}',
  });
  expect(await rows("SELECT id FROM millrace_instances WHERE workflow = 'never-bound'")).toEqual([]);
});

it("a command on a queue without a binding is refused, and the error names the line to add", async () => {
  const queue = defineQueue({ name: "no-such-queue" });
  const app = catalog({ consumers: [defineConsumer({ queue, starts: [workflow("probe", asked("probe.unqueued", queue))] })] });
  const [answer] = await acceptCommands(probeEnv, app, by, [{ type: "probe.unqueued", payload: { name: "unqueued" } }]);
  expect(answer).toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining('"queues.producers" in wrangler.jsonc: {"binding": "NO_SUCH_QUEUE", "queue": "no-such-queue"}'),
  });
});

it.each([
  ["Billing_Commands", "a queue name must not have capitals and underscores"],
  ["billing_commands", "with underscores, two queue names would give one binding name"],
  ["billing--commands", "a queue name must not have two dashes in a row"],
  ["-billing", "a queue name must not begin with a dash"],
  ["billing-", "a queue name must not end with a dash"],
  ["", "a queue name must not be empty"],
  [`billing-${"x".repeat(52)}`, "the dead-letter queue would have a name of more than 63 characters"],
])("the queue name %s is refused: %s", (name) => {
  expect(() => defineQueue({ name })).toThrow(
    expect.objectContaining({ code: "config_invalid", message: expect.stringContaining("is not a queue name") }),
  );
  expect(defineQueue({ name: `billing-2-${"x".repeat(49)}` }).name).toHaveLength(59);
});

it.each([
  [{ limit: Number.NaN }, "retries.limit NaN: use a whole number, 0 to 100"],
  [{ limit: -1 }, "retries.limit -1"],
  [{ limit: 101 }, "retries.limit 101"],
  [{ max: "13 hours" as const }, "above 12 hours"],
])("a consumer with retries that Cloudflare Queues do not support is refused: %j", (odd, says) => {
  const retries = { limit: 1, initial: 10, max: 10, ...odd };
  const declare = () => defineConsumer({ queue: ProbeRequested.queue, starts: [], retries });
  expect(declare).toThrow(expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(says) }));
});

const told = (type: string, queue = ProbeSignal.queue) => defineEvent({ type, payload, subject: name, queue });
const [perform, shipped, paid] = [workflow("perform", asked("probe.performed")), told("probe.shipped"), told("probe.paid")];
const thank = defineWorkflow({ name: "thank", on: shipped, run: async () => undefined });
const elsewhere = defineQueue({ name: "elsewhere" });
const sends = (command: ReturnType<typeof asked>) =>
  on(
    paid,
    send(command, ({ name }) => ({ name })),
  );

it.each<[string, ConsumerDefinition[], string]>([
  [
    "a queue that carries commands and events",
    [startsOf(perform), defineConsumer({ queue: ProbeRequested.queue, routes: [on(told("probe.told", ProbeRequested.queue))] })],
    'The queue "probe-commands" carries commands and events: use another queue for the events.',
  ],
  [
    "a consumer with starts and routes",
    [{ ...startsOf(perform), routes: [] } as never],
    'The consumer of "probe-commands" has both starts and routes: use starts for a queue of commands, or routes for a queue of events.',
  ],
  ["a queue with two consumers", [startsOf(), startsOf()], 'The queue "probe-commands" has two consumers: merge them into one.'],
  [
    "a workflow of an event in starts",
    [startsOf(thank), routesOf(on(shipped))],
    '"thank" follows the event "probe.shipped", but starts is for workflows that perform a command: ' +
      'add start(…) to the on(…) of that event, in the routes of the consumer of "probe-events".',
  ],
  [
    "a command in routes",
    [routesOf(on(perform.on as never))],
    '"probe.performed" is a command, but routes are for events: list its workflow in the starts of the consumer of "probe-commands".',
  ],
  [
    "a workflow at the consumer of another queue",
    [defineConsumer({ queue: elsewhere, starts: [perform] })],
    '"perform" performs "probe.performed", which uses the queue "probe-commands", but the consumer of "elsewhere" starts it: ' +
      'move it to the starts of the consumer of "probe-commands".',
  ],
  [
    "an event at the consumer of another queue",
    [defineConsumer({ queue: elsewhere, routes: [on(paid)] })],
    '"probe.paid" uses the queue "probe-events", but the consumer of "elsewhere" routes it: ' +
      'move its on(…) to the consumer of "probe-events".',
  ],
  [
    "a command and an event of one type",
    [startsOf(perform), routesOf(on(told("probe.performed")))],
    '"probe.performed" is the type of a command and of an event: rename one of them.',
  ],
  [
    "an event with two entries in routes",
    [routesOf(on(paid), on(paid))],
    '"probe.paid" has two entries in routes: put all its targets into one on(…).',
  ],
  [
    "a workflow that the route of another event starts",
    [routesOf(on(shipped), on(paid, start(thank) as never))],
    '"thank" follows "probe.shipped", but the route of "probe.paid" starts it: move its start(…).',
  ],
  [
    "a workflow that is listed twice",
    [startsOf(perform, perform)],
    '"perform" is listed twice in starts and routes: remove one of the two.',
  ],
  [
    "two workflows of one name",
    [startsOf(perform, workflow("perform", asked("probe.other")))],
    'Two workflows are named "perform": rename one.',
  ],
  [
    "two workflows that perform one command",
    [startsOf(perform, workflow("also", perform.on as never))],
    'Two workflows perform "probe.performed": a command has one owner; make it an event, or two commands.',
  ],
  [
    "a command without a handler",
    [startsOf(perform), routesOf(sends(asked("probe.lost")))],
    'A route sends "probe.lost", which no workflow performs: add its workflow to the starts of the consumer of "probe-commands".',
  ],
  [
    "a command on a queue without a consumer",
    [routesOf(sends(asked("probe.lost", elsewhere)))],
    'A route sends "probe.lost" on the queue "elsewhere", which has no consumer: add one, with the workflow in starts.',
  ],
])("a catalog with %s is refused, and the error names the value to change", (_, consumers, says) => {
  expect(() => catalog({ consumers })).toThrow(says);
});

it("a catalog has the workflows and events of its consumers", () => {
  const app = catalog({ consumers: [routesOf(on(shipped, start(thank)), on(paid)), startsOf(perform)] });
  expect(app.workflows).toEqual([perform, thank]);
  expect(app.performer("probe.performed")).toBe(perform);
  expect(app.subscribers("probe.paid").targets).toEqual([]);
});

it("an error about an unknown message type names the most similar one, or the steps to add a type", () => {
  expect(() => app.performer("probe.requestd")).toThrow('Did you mean "probe.requested"?');
  expect(() => app.performer("customer.welcome")).toThrow(
    "add its workflow to `workflows: […]` of millrace({ … }), or to the starts of its queue",
  );
  expect(() => app.subscribers("customer.welcomed")).toThrow("to the routes of its queue");
  expect(app.subscribers(ProbeSignal.type).event).toBe(ProbeSignal);
});

it.each([
  ["a key", "config_invalid", { key: ({ items }: { items: { id: string }[] }) => items[0]?.id.trim() as string }],
  [
    "a schema",
    "invalid_payload",
    { payload: z.object({ items: z.array(z.object({ id: z.string() })) }).refine(({ items }) => (items[0] as { id: string }).id !== "") },
  ],
])("a command that %s cannot process is refused, and the other commands of its request are accepted", async (_, code, odd) => {
  const schema = z.object({ items: z.array(z.object({ id: z.string() })) });
  const key = ({ items }: z.infer<typeof schema>) => (items[0] as { id: string }).id;
  const on = defineCommand({
    type: "probe.items",
    payload: schema,
    key: (one) => key(one),
    subject: () => "s",
    queue: ProbeRequested.queue,
    ...odd,
  });
  const app = catalog({ consumers: [startsOf(defineWorkflow({ name: "probe", on, run: async () => undefined }))] });
  const items = [[{ id: crypto.randomUUID() }], [], [{ id: crypto.randomUUID() }]];
  const answers = await acceptCommands(
    probeEnv,
    app,
    by,
    items.map((items) => ({ type: "probe.items", payload: { items }, delaySeconds: 600 })),
  );
  expect(answers).toMatchObject([{ replayed: false }, { code }, { replayed: false }]);
  await probeEnv.DB.prepare("DELETE FROM millrace_instances WHERE message_type = 'probe.items'").run();
});
