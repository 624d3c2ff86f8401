import { expect, it } from "vitest";
import * as z from "zod";
import { catalog, defineCommand, defineEvent, defineQueue, defineWorkflow, enqueue, on } from "../../src/engine/index.ts";
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

it("an unknown type is told what it resembles, or what a new one needs", () => {
  expect(() => app.performer("probe.requestd")).toThrow('Did you mean "probe.requested"?');
  expect(() => app.performer("customer.welcome")).toThrow("needs its workflow in the catalog");
  expect(() => app.subscribers("customer.welcomed")).toThrow("needs a line in the routes");
  expect(app.subscribers(ProbeSignal.type).event).toBe(ProbeSignal);
});
