import { runInDurableObject } from "cloudflare:test";
import { defineCommand, defineConsumer, defineEvent, defineQueue, defineWorkflow, type Envelope, enqueueOne, on, send } from "millrace";
import { locks as engineLocks, instances } from "millrace/operate";
import { type Catalog, catalog, keeper, keeperOf } from "millrace/worker";
import { expect, it, vi } from "vitest";
import * as z from "zod";
import { workflowBinding } from "../../../packages/millrace/src/contract/bindings.ts";
import { signalId } from "../../../packages/millrace/src/contract/ids.ts";
import { locks } from "../../../packages/millrace/src/reconcile/checks/objects.ts";
import { wake } from "../../../packages/millrace/src/signals/assign.ts";
import { missingIn, queuesIn } from "../../../packages/millrace/src/topology/described.ts";
import { fresh, operator, probeEnv, rows } from "../harness.ts";

const payload = z.object({ name: z.string() });
const key = ({ name }: { name: string }) => name;
const [farQueue, nearEvents] = [defineQueue({ name: "far-commands" }), defineQueue({ name: "near-events" })];
const FarWork = defineCommand({ type: "far.work", payload, key, subject: key, queue: farQueue });
const NearDone = defineEvent({ type: "near.done", payload, subject: key, queue: nearEvents });
const farWork = defineWorkflow({ name: "far-work", on: FarWork, run: async () => undefined });
const far = defineConsumer({ queue: farQueue, starts: [farWork] });
const near = defineConsumer({
  queue: nearEvents,
  routes: [
    on(
      NearDone,
      send(FarWork, (done) => done),
    ),
  ],
});

const sent = vi.fn(async () => undefined);
const env = { ...probeEnv, FAR_COMMANDS: { sendBatch: sent } as unknown as Queue, NEAR_EVENTS: probeEnv.PROBE_EVENTS };

/** One round of the keeper of a Worker with this catalog, in the one isolate of all tests. */
const round = (its: Catalog, bindings: object = env) =>
  runInDurableObject(keeperOf(probeEnv), (_, state) => new (keeper({ catalog: its }))(state, bindings as never).round());

it("a catalog with a consumer in `elsewhere` may send its commands and describes its queue; without that entry it is refused", () => {
  expect(() => catalog({ consumers: [near] })).toThrow("which has no consumer");
  const split = catalog({ consumers: [near], elsewhere: [far] });
  expect(split.performer("far.work")).toBe(farWork);
  expect(queuesIn(split)).toMatchObject([
    { name: "near-events", is_external: false },
    {
      ...{ name: "far-commands", is_external: true },
      producers: [
        { by: "request", name: "POST /v1/commands" },
        { by: "route", name: "near.done" },
      ],
    },
  ]);
  expect(missingIn(env, split)).toEqual([]);
  expect(() => catalog({ consumers: [near, far], elsewhere: [far] })).toThrow('The queue "far-commands" has two consumers');
});

it("two catalogs in one isolate: the keeper of each does not change the instance and the message of the other, and starts its own", async () => {
  const split = catalog({ consumers: [near], elsewhere: [far] });
  const other = catalog({ consumers: [far], elsewhere: [near] });
  // Each has its own names, in spite of the other.
  expect([...split.elsewhere.workflows]).toEqual(["far-work", "send-callback"]);
  expect([...other.elsewhere.workflows]).toEqual(["send-callback"]);
  expect(missingIn(env, split)).toEqual([]);
  expect(missingIn(env, other)).toMatchObject([expect.stringContaining('"far-work" is not bound')]);
  const name = fresh();
  const { instanceId: id } = await enqueueOne(env, split, { tenantId: "acme", source: "test" }, { command: FarWork, payload: { name } });
  expect(sent).toHaveBeenCalledTimes(1);
  await probeEnv.DB.prepare("UPDATE millrace_instances SET check_at = 1 WHERE id = ?1").bind(id).run();
  await probeEnv.DB.prepare("INSERT INTO millrace_outbox (id, queue, body, due_at) VALUES (?1, 'far-commands', '{}', 1)").bind(name).run();
  await round(split);
  expect(await rows("SELECT status, check_at FROM millrace_instances WHERE id = ?1", id)).toEqual([{ status: "accepted", check_at: 1 }]);
  expect(await rows("SELECT attempts, due_at, error FROM millrace_outbox WHERE id = ?1", name)).toEqual([
    { attempts: 0, due_at: 1, error: null },
  ]);
  expect(await instances.describe(env, operator, id, split)).toMatchObject({ status: "accepted", error: null });
  expect(() => workflowBinding(env, "far-work", split.elsewhere)).toThrow('"far-work" runs in another Worker');

  const created = vi.fn(async () => ({ instances: [], errors: [] }));
  await probeEnv.DB.prepare("UPDATE millrace_instances SET accepted_at = 1 WHERE id = ?1").bind(id).run();
  await round(other, { ...env, FAR_WORK: { createBatch: created } });
  expect(created.mock.calls.flat()).toMatchObject([{ instances: [{ id }] }]);
  expect(await rows("SELECT attempts FROM millrace_outbox WHERE id = ?1", name)).toEqual([{ attempts: 1 }]);
  await probeEnv.DB.prepare("DELETE FROM millrace_outbox WHERE id = ?1").bind(name).run();
  await probeEnv.DB.prepare("UPDATE millrace_instances SET status = 'terminated', check_at = NULL WHERE id = ?1").bind(id).run();
});

it("an event for a waiting run of another Worker is delivered by that Worker's keeper, and logs no warning", async () => {
  const split = catalog({ consumers: [near], elsewhere: [far] });
  const event = { tenant_id: "acme", message_type: "near.done", idempotency_key: fresh() } as Envelope;
  const wait = { instance_id: fresh(), workflow: "far-work", event_type: "near.done", signal_id: signalId(event) };
  const warned = vi.spyOn(console, "warn");
  expect(await wake(env, [wait], [event], split.elsewhere)).toEqual([]);
  expect(warned).not.toHaveBeenCalled();
});

it("a Worker without the binding LOCK does not check the listed locks, because another Worker has the lock objects", async () => {
  const name = fresh("lock");
  await probeEnv.DB.prepare("INSERT INTO millrace_locks (tenant_id, name, token) VALUES ('acme', ?1, 7)").bind(name).run();
  const listed = () => rows("SELECT token FROM millrace_locks WHERE name = ?1", name);
  const without = { ...probeEnv, LOCK: undefined };
  expect(await engineLocks.list(without as never, operator, { after: "", limit: 100 })).toEqual({ items: [], next: null });
  expect(await listed()).toEqual([{ token: 7 }]);
  expect((await locks.slice(without as never, null)).found).toEqual([]);
  // The Worker with the binding removes a listed lock that its object does not hold.
  await engineLocks.list(probeEnv as never, operator, { after: "", limit: 100 });
  expect(await listed()).toEqual([]);
});
