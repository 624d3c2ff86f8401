import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { publishEvents } from "millrace";
import { engineRoutes } from "millrace/http";
import { expect, it, onTestFinished, vi } from "vitest";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { recorderOf } from "../../../packages/millrace/src/recorder/client.ts";
import { startDue } from "../../../packages/millrace/src/schedules/due.ts";
import worker, { app } from "../../probe/worker.ts";
import { passes } from "../../probe/workflows.ts";
import { event, fresh, probeEnv, rows, until } from "../harness.ts";

const LINES = [
  [
    "DB",
    '"DB" is not bound. Add this line to "d1_databases" in wrangler.jsonc: {"binding": "DB", "database_name": "<the Worker\'s name>"}',
  ],
  [
    "PAYLOADS",
    '"PAYLOADS" is not bound. Add this line to "r2_buckets" in wrangler.jsonc: {"binding": "PAYLOADS", "bucket_name": "<the Worker\'s name>-payloads"}',
  ],
  [
    "RECORDER",
    'RECORDER is not bound. Export Recorder, which millrace/worker exports, from the Worker\'s main file. Add this line to "exports" in wrangler.jsonc: ' +
      '"Recorder": {"type": "durable-object", "storage": "sqlite"}. Where that file has "migrations", add "Recorder" to the "new_sqlite_classes" ' +
      "of a new one instead.",
  ],
  [
    "KEEPER",
    'KEEPER is not bound. Export Keeper, which millrace/worker exports, from the Worker\'s main file. Add this line to "exports" in wrangler.jsonc: ' +
      '"Keeper": {"type": "durable-object", "storage": "sqlite"}. Where that file has "migrations", add "Keeper" to the "new_sqlite_classes" ' +
      "of a new one instead.",
  ],
] as const;
const BINDINGS = [
  ...LINES,
  ["MILLRACE_KEY", "MILLRACE_KEY is not set. Set it with: wrangler secret put MILLRACE_KEY (locally: a line in .dev.vars)."],
] as const;
const by = { tenantId: "acme", source: "test" };
const without = (binding: string) => ({ ...probeEnv, [binding]: undefined }) as typeof probeEnv;

it.each(BINDINGS)("a deployment without the binding %s reports that in its first answer, on every route", async (binding, says) => {
  const api = engineRoutes(app);
  const logged = vi.spyOn(console, "error").mockImplementation(() => {});
  for (const [path, method] of [
    ["/healthz", "GET"],
    ["/v1/instances", "GET"],
    ["/v1/commands", "POST"],
  ]) {
    const request = new Request(`http://localhost${path}`, { method: method as string });
    const answer = await api.fetch(request, without(binding), createExecutionContext());
    expect([answer.status, await answer.json()]).toMatchObject([500, { code: "config_invalid", detail: says }]);
  }
  logged.mockRestore();
});

it.each(BINDINGS)("a command, an event and a due time are refused without the binding %s, and nothing is stored", async (binding, says) => {
  const [name, env] = [fresh(), without(binding)];
  const refused = { code: "config_invalid", message: says };
  expect(
    await acceptCommands(env, app, by, [{ type: "probe.requested", payload: { name, steps: [] }, idempotencyKey: name }]),
  ).toMatchObject([refused]);
  expect(await publishEvents(env, app, by, [{ type: "probe.signal", payload: { name }, idempotencyKey: name }])).toMatchObject([refused]);
  await expect(startDue(env, app)).rejects.toMatchObject(refused);
  expect(await rows("SELECT id FROM millrace_instances WHERE idempotency_key = ?1", name)).toEqual([]);
});

it.each(BINDINGS)("messages return to their queue when the binding %s is missing, and the log names it", async (binding, says) => {
  const logged = vi.spyOn(console, "log").mockImplementation(() => {});
  const warned = vi.spyOn(console, "warn").mockImplementation(() => {});
  const batch = createMessageBatch("probe-commands", [{ id: "a", timestamp: new Date(), body: { some: "message" }, attempts: 1 }]);
  const context = createExecutionContext();
  await worker.queue?.(batch, without(binding), context);
  expect(await getQueueResult(batch, context)).toMatchObject({ explicitAcks: [], retryMessages: [{ msgId: "a" }] });
  expect([...logged.mock.calls, ...warned.mock.calls].flat().join("\n")).toContain(JSON.stringify(says));
  vi.restoreAllMocks();
});

it("a Durable Object that is exported and not bound is found by the name of its class", async () => {
  const { RECORDER, KEEPER, ...bare } = probeEnv;
  expect([RECORDER, KEEPER]).not.toContain(undefined);
  const [name, env] = [fresh(), bare as typeof probeEnv];
  const answer = await engineRoutes(app).fetch(new Request("http://localhost/healthz"), env, createExecutionContext());
  expect(answer.status).toBe(200);
  const [accepted] = await acceptCommands(env, app, by, [{ type: "probe.requested", payload: { name, steps: [] } }]);
  expect(accepted).toMatchObject({ replayed: false });
  expect(recorderOf(env, name)).toBeDefined();
});

it("a replay without the binding RECORDER fails its instance before any effect, and the error names the line to add", async () => {
  const { RECORDER } = probeEnv;
  onTestFinished(() => void Object.assign(probeEnv, { RECORDER }));
  Object.assign(probeEnv, { RECORDER: undefined });
  const [id, name] = [fresh(), fresh()];
  const command = { ...event("probe.signal", name, { name, steps: [] }), kind: "command", message_type: "probe.requested" };
  const instance = await probeEnv.PROBE.create({ id, params: command });
  const { error } = await until(
    () => instance.status(),
    ({ status }) => status === "errored",
  );
  expect(error?.message).toContain('Add this line to "exports" in wrangler.jsonc: "Recorder": {"type": "durable-object"');
  expect(passes.has(id)).toBe(false);
});
