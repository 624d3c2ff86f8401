import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { type Envelope, ids } from "millrace";
import { instances } from "millrace/operate";
import { describe, expect, it } from "vitest";
import type { OrderRoom } from "../../docs/examples/order-room.ts";
import { deliver, dieAt, fresh, happened, keeperRound, operator, probeEnv, reaches, rows, until } from "../harness.ts";
import { world } from "./world.ts";

const { ORDER_ROOM } = probeEnv as unknown as { ORDER_ROOM: DurableObjectNamespace<OrderRoom> };
const DONE = { pick: "done", label: "done", "hand over": "done" };

/** An order, and the tasks that the simulated warehouse refuses. */
function order() {
  const name = fresh("order");
  const refused = new Set<string>();
  type Body = { order: string; task: string };
  const asked = world<Body>(
    "warehouse.example.com",
    (body) => `${body.order}/${body.task}`,
    (body) => refused.has(body.task),
  );
  const room = ORDER_ROOM.getByName(`acme/${name}`);
  return {
    ...{ name, refused, room },
    place: () => room.place("acme", name),
    dies: async () => {
      await runInDurableObject(room, (object) => expect(object.place("acme", name)).rejects.toThrow("Died"));
      await evictDurableObject(room);
    },
    /** The states of the order's tasks, once they include these states. */
    comesTo: (tasks: Record<string, string>) =>
      until(
        async () => (await room.tasks()) as Record<string, string>,
        (seen) => Object.entries(tasks).every(([task, state]) => seen[task] === state),
      ),
    /** The tasks that the warehouse has executed, in order. */
    did: async () => (await happened(`${name}/`)).map(({ subject }) => subject.slice(name.length + 1)),
    asked: () => asked.map(({ body }) => body.task),
    id: (task: string) => ids.instance("acme", "run-task", `${name}/${task}`),
  };
}

describe("The order room of docs/patterns.md", () => {
  it("an order room hands over once both earlier tasks are done, and executes each task once for any number of placements and reports", async () => {
    const one = order();
    await Promise.all([one.place(), one.place()]);
    expect(await one.comesTo(DONE)).toEqual(DONE);
    await one.place();
    expect(await one.comesTo(DONE)).toEqual(DONE);
    const did = await one.did();
    expect(did.toSorted()).toEqual(["hand over", "label", "pick"]);
    expect(did.at(-1)).toBe("hand over");
    expect(one.asked()).toHaveLength(3);
  });

  it("an order room that dies before it requests a task requests it by its alarm, and remembers completed tasks", async () => {
    const one = order();
    const death = dieAt("A01 before accept commits");
    await one.dies();
    expect(death.died()).toBe(true);
    expect(await one.room.tasks()).toEqual({ pick: "owed", label: "owed", "hand over": "waiting" });
    expect(await runDurableObjectAlarm(one.room)).toBe(true);
    expect(await one.comesTo(DONE)).toEqual(DONE);
    expect(one.asked()).toHaveLength(3);
  });

  it("an order room that dies before it records an accepted task requests it a second time, and the task is executed once", async () => {
    const one = order();
    const death = dieAt("A02 accept committed, not answered");
    await one.dies();
    expect(death.died()).toBe(true);
    await runDurableObjectAlarm(one.room);
    expect(await one.comesTo(DONE)).toEqual(DONE);
    expect((await one.did()).toSorted()).toEqual(["hand over", "label", "pick"]);
    expect(one.asked()).toHaveLength(3);
  });

  it("an order room is notified of a task's end after a crash before that event was sent, and applies a repeated notification once", async () => {
    const one = order();
    const death = dieAt("O01 committed, not relayed", one.id("pick"));
    await one.place();
    expect(await until(async () => death.died(), Boolean)).toBe(true);
    await one.comesTo({ label: "done" });
    expect(await one.room.tasks()).toEqual({ pick: "asked", label: "done", "hand over": "waiting" });
    const [event] = await rows<{ body: string }>(
      "SELECT body FROM millrace_outbox WHERE body->>'causation_id' LIKE ?1 || '%'",
      one.id("pick"),
    );
    await keeperRound();
    expect(await one.comesTo(DONE)).toEqual(DONE);
    expect(await deliver("task-events", [JSON.parse(event?.body ?? "null")])).toEqual({ acked: 1, retried: 0 });
    expect(await one.room.tasks()).toEqual(DONE);
    expect(one.asked()).toHaveLength(3);
  });

  it("an order room stops at a failed task, and continues when an operator has retried that task", async () => {
    const one = order();
    one.refused.add("label");
    await one.place();
    const stopped = { pick: "done", label: "failed", "hand over": "waiting" };
    expect(await one.comesTo(stopped)).toEqual(stopped);
    expect(await reaches(one.id("label"), "errored")).toBe("errored");
    one.refused.clear();
    await instances.act(probeEnv, operator, "retry", one.id("label"), { reason: "The printer has paper." });
    expect(await one.comesTo(DONE)).toEqual(DONE);
    expect((await one.did()).at(-1)).toBe("hand over");
    await one.room.onEvent({ payload_inline: { order: one.name, task: "label", ok: false } } as Envelope);
    expect(await one.room.tasks(), "a late report of the failure changes nothing").toEqual(DONE);
  });
});
