import { defineCommand, defineEvent, defineQueue, defineWorkflow, enqueue, on, start } from "millrace";
import { catalog } from "millrace/worker";
import { expect, it } from "vitest";
import * as z from "zod";
import { ProbeRequested, ProbeSignal } from "../probe/messages.ts";
import { app } from "../probe/worker.ts";
import { probeEnv, rows } from "./harness.ts";

const payload = z.object({ name: z.string() });
const name = ({ name }: { name: string }) => name;
const asked = (type: string, queue = ProbeRequested.queue) => defineCommand({ type, payload, key: name, subject: name, queue });
const workflow = (name: string, on: ReturnType<typeof asked>) => defineWorkflow({ name, on, run: async () => undefined });
const by = { tenantId: "acme", source: "test" };

it("a command whose workflow is not bound is refused, with the line to add, and leaves nothing behind", async () => {
  const app = catalog({ workflows: [workflow("never-bound", asked("probe.unbound"))], routes: [] });
  const [answer] = await enqueue(probeEnv, app, by, [{ type: "probe.unbound", payload: { name: "unbound" } }]);
  expect(answer).toMatchObject({
    code: "config_invalid",
    message:
      '"never-bound" is not bound. Add this line to "workflows" in wrangler.jsonc: {"binding": "NEVER_BOUND", "name": "never-bound", "class_name": "NeverBound"}',
  });
  expect(await rows("SELECT id FROM instances WHERE workflow = 'never-bound'")).toEqual([]);
});

it("a command whose queue is not bound is refused likewise", async () => {
  const command = asked("probe.unqueued", defineQueue({ name: "no-such-queue" }));
  const app = catalog({ workflows: [workflow("probe", command)], routes: [] });
  const [answer] = await enqueue(probeEnv, app, by, [{ type: "probe.unqueued", payload: { name: "unqueued" } }]);
  expect(answer).toMatchObject({
    code: "config_invalid",
    message: expect.stringContaining('"queues.producers" in wrangler.jsonc: {"binding": "NO_SUCH_QUEUE", "queue": "no-such-queue"}'),
  });
});

it("a queue that carries commands and events ends the start", () => {
  const told = defineEvent({ type: "probe.told", payload, subject: name, queue: ProbeRequested.queue });
  expect(() => catalog({ workflows: [workflow("probe", asked("probe.mixed"))], routes: [on(told)] })).toThrow(
    'The queue "probe-commands" carries commands and events',
  );
});

it("a workflow that the line of another event starts ends the start", () => {
  const shipped = defineEvent({ type: "probe.shipped", payload, subject: name, queue: ProbeSignal.queue });
  const paid = defineEvent({ type: "probe.paid", payload, subject: name, queue: ProbeSignal.queue });
  const thank = defineWorkflow({ name: "thank", on: shipped, run: async () => undefined });
  expect(() => catalog({ workflows: [thank], routes: [on(shipped), on(paid, start(thank) as never)] })).toThrow(
    '"thank" follows "probe.shipped", and the line of "probe.paid" starts it: move its start(…).',
  );
});

it("an unknown type is told what it resembles, or what a new one needs", () => {
  expect(() => app.performer("probe.requestd")).toThrow('Did you mean "probe.requested"?');
  expect(() => app.performer("customer.welcome")).toThrow("needs its workflow in the catalog");
  expect(() => app.subscribers("customer.welcomed")).toThrow("needs a line in the routes");
  expect(app.subscribers(ProbeSignal.type).event).toBe(ProbeSignal);
});

it.each([
  ["a key", { key: ({ items }: { items: { id: string }[] }) => items[0]?.id.trim() as string }],
  [
    "a schema",
    { payload: z.object({ items: z.array(z.object({ id: z.string() })) }).refine(({ items }) => (items[0] as { id: string }).id !== "") },
  ],
])("a command of which %s can make nothing is refused by itself: the others of its request are taken", async (_, odd) => {
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
  const app = catalog({ workflows: [defineWorkflow({ name: "probe", on, run: async () => undefined })], routes: [] });
  const items = [[{ id: crypto.randomUUID() }], [], [{ id: crypto.randomUUID() }]];
  const answers = await enqueue(
    probeEnv,
    app,
    by,
    items.map((items) => ({ type: "probe.items", payload: { items }, delaySeconds: 600 })),
  );
  expect(answers).toMatchObject([{ replayed: false }, { code: "invalid_payload" }, { replayed: false }]);
  await probeEnv.DB.prepare("DELETE FROM instances WHERE message_type = 'probe.items'").run();
});
