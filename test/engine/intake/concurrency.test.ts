import { defineCommand, defineQueue, defineWorkflow, ids as messageIds, type Steps } from "millrace";
import { instances } from "millrace/operate";
import { expect, it, onTestFinished } from "vitest";
import * as z from "zod";
import { noteFlow } from "../../../packages/millrace/src/contract/flow.ts";
import { defineLaneQueue } from "../../../packages/millrace/src/contract/queue.ts";
import { actOnWork } from "../../../packages/millrace/src/operate/pause-work.ts";
import { lab, labs } from "../../probe/lab.ts";
import { app } from "../../probe/worker.ts";
import { countDone } from "../../probe/workflows.ts";
import { deliver, dieAt, envelopeOf, event, fresh, keeperRound, probeEnv, reaches, rows, statusOf, until } from "../harness.ts";
import { platformOf, refuse, runLab } from "../lab.ts";
import { crowd } from "./flowing.ts";

it("at most N instances of a key are in progress, and the others start in the order of acceptance", async () => {
  const { command, post, tenantId, begun, most, end, hasBegun, heldOf, get } = await crowd(2);
  const names = ["a", "b", "c", "d", "e"];
  const { body } = await post("/v1/commands/batch", { commands: names.map((name) => command(name)) });
  const ids: string[] = body.results.map((one: { instance_id: string }) => one.instance_id);
  await hasBegun("a", "b");
  expect(await heldOf(ids[3] ?? "")).toBe("Waits for one of 2 slots of its key, after 1 others.");
  expect((await get("/v1/instances?activity=held")).body.items.map(({ id }: { id: string }) => id).toSorted()).toEqual(
    ids.slice(2).toSorted(),
  );
  end("a");
  await hasBegun("c");
  end("c", "b");
  await hasBegun("d", "e");
  end("all");
  for (const id of ids) expect(await reaches(id, "complete")).toBe("complete");
  expect(begun()).toEqual(names);
  expect(most()).toBe(2);
  expect(await rows("SELECT 1 FROM millrace_instances WHERE tenant_id = ?1 AND slot_turn IS NOT NULL", tenantId)).toEqual([]);
});

it("other keys and other tenants have slots of their own", async () => {
  const { send, end, hasBegun, begun } = await crowd();
  const other = await crowd();
  await send("a");
  await send("b");
  await send("c", {}, "two");
  await other.send("a");
  await hasBegun("a", "c");
  await other.hasBegun("a");
  expect(begun()).not.toContain("b");
  end("all");
  other.end("all");
  await hasBegun("b");
});

it("commands that arrive by concurrent requests share the limit", async () => {
  const { send, end, most, begun } = await crowd(3);
  const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => send(`c${n}`)));
  end("all");
  for (const id of ids) expect(await reaches(id, "complete")).toBe("complete");
  expect(most()).toBeLessThanOrEqual(3);
  expect(new Set(begun()).size).toBe(20);
});

it("a waiting command starts neither by a repeated message nor by the keeper, and once after its slot is free", async () => {
  const { send, end, begun, hasBegun, arrives } = await crowd();
  await send("a");
  const second = await send("b");
  await hasBegun("a");
  for (let round = 0; round < 3; round++) {
    expect(await arrives(second)).toMatchObject({ acked: 1 });
    await keeperRound();
  }
  expect(begun()).toEqual(["a"]);
  end("a", "b");
  await arrives(second);
  expect(await reaches(second, "complete")).toBe("complete");
  await arrives(second);
  expect(begun()).toEqual(["a", "b"]);
});

it("commands without a sent message start by the keeper, within the limit and in order (A03)", async () => {
  const { send, end, begun, most, nameOf } = await crowd();
  for (const name of ["a", "b", "c"]) {
    dieAt("A03 accept committed, not enqueued");
    await expect(send(name)).rejects.toThrow();
  }
  end("all");
  for (const name of ["a", "b", "c"]) {
    await keeperRound();
    const [row] = await rows<{ id: string }>("SELECT id FROM millrace_instances WHERE idempotency_key = ?1", nameOf(name));
    expect(await reaches(row?.id ?? "", "complete")).toBe("complete");
  }
  expect(begun()).toEqual(["a", "b", "c"]);
  expect(most()).toBe(1);
});

it("the keeper starts an instance that got its slot from a recorder that died (slot given, next not started)", async () => {
  const { send, end, begun, hasBegun, heldOf } = await crowd();
  const [first, second] = [await send("a"), await send("b")];
  await hasBegun("a");
  dieAt("slot given, next not started", first);
  end("all");
  expect(await reaches(first, "complete")).toBe("complete");
  expect(await heldOf(second)).toBeNull();
  expect(begun()).toEqual(["a"]);
  await keeperRound();
  expect(await reaches(second, "complete")).toBe("complete");
  expect(begun()).toEqual(["a", "b"]);
});

it("a failed instance has no slot, and its retry runs beyond the limit", async () => {
  const { send, end, begun, hasBegun, act, nameOf, heldOf } = await crowd();
  const broken = { is: true };
  labs.set(nameOf("bad"), ({ step }) => step.commit("work", () => (broken.is ? refuse() : {}), { retries: { limit: 0, delay: 10 } }));
  const failing = await send("other", { payload: { name: nameOf("bad"), note: "one" } });
  const [second, third] = [await send("b"), await send("c")];
  expect(await reaches(failing, "errored")).toBe("errored");
  await hasBegun("b");
  expect(await heldOf(third)).toContain("after 0 others");
  broken.is = false;
  expect((await act(failing, "retry")).status).toBe(202);
  expect(await reaches(failing, "complete")).toBe("complete");
  expect(begun()).not.toContain("c");
  end("all");
  expect(await reaches(second, "complete")).toBe("complete");
  expect(await reaches(third, "complete")).toBe("complete");
});

it("an operator cancels a waiting command, starts one beyond the limit, and moves one to the front", async () => {
  const { send, end, begun, hasBegun, act, heldOf, get } = await crowd();
  const [, second, third, fourth, fifth] = [await send("a"), await send("b"), await send("c"), await send("d"), await send("e")];
  await hasBegun("a");
  expect((await act(second, "pause")).body.detail).toContain("waits for a slot");
  expect((await act(second, "restart")).body.detail).toContain("has not started");
  expect((await act(second, "cancel")).status).toBe(202);
  await keeperRound();
  expect(await reaches(second, "terminated")).toBe("terminated");
  expect((await act(fifth, "release", { front: true, dry_run: true })).body).toMatchObject({
    refused: null,
    consequence: "The command gets the next slot of its key.",
  });
  expect((await act(fifth, "release", { front: true })).status).toBe(202);
  expect(await heldOf(fifth)).toBe("Waits for one of 1 slots of its key, after 0 others.");
  expect((await act(fourth, "release")).status).toBe(202);
  await hasBegun("d");
  expect((await get(`/v1/instances/${third}`)).body.held).toContain("after 1 others");
  end("a");
  expect((await act(fourth, "release")).status).toBe(409);
  end("d");
  await hasBegun("e");
  expect(begun()).toEqual(["a", "d", "e"]);
  end("all");
  expect(await reaches(third, "complete")).toBe("complete");
  expect(begun()).toEqual(["a", "d", "e", "c"]);
});

it("waiting commands of a paused workflow start after the resume, in order", async () => {
  const { send, end, begun, hasBegun, tenantId } = await crowd();
  const first = await send("a");
  await hasBegun("a");
  const others = [await send("b"), await send("c")];
  const by = { tenantId, actor: "tess", scopes: [] };
  const pause = { kind: "workflow", name: "lab", allTenants: false } as const;
  await actOnWork(probeEnv, app, by, "pause", pause, { reason: "closed" });
  end("all");
  expect(await reaches(first, "complete")).toBe("complete");
  await keeperRound();
  await keeperRound();
  expect(begun()).toEqual(["a"]);
  await actOnWork(probeEnv, app, by, "resume", pause, { reason: "open" });
  await keeperRound();
  await keeperRound();
  for (const id of others) expect(await reaches(id, "complete")).toBe("complete");
  expect(begun()).toEqual(["a", "b", "c"]);
});

it("a paused instance keeps its slot, and a delayed command takes its place when it is due", async () => {
  const { send, end, begun, hasBegun, act, tenantId } = await crowd();
  const delayed = await send("late", { delay_seconds: 3600 });
  const first = await send("a");
  await hasBegun("a");
  expect(await statusOf(delayed)).toBe("accepted");
  const second = await send("b");
  await act(first, "pause");
  await keeperRound();
  expect(begun()).toEqual(["a"]);
  expect((await act(delayed, "release")).status).toBe(202);
  end("all");
  await act(first, "resume");
  for (const id of [first, second, delayed]) expect(await reaches(id, "complete")).toBe("complete");
  expect(begun()).toEqual(["a", "b", "late"]);
  expect((await instances.list(probeEnv, { tenantId, actor: "tess" }, { activity: "held" })).items).toEqual([]);
});

it("a command that was paused before it was due waits for a slot after its resume", async () => {
  const { send, end, begun, hasBegun, act, heldOf } = await crowd();
  const delayed = await send("late", { delay_seconds: 3600 });
  expect((await act(delayed, "pause")).status).toBe(202);
  await keeperRound();
  await keeperRound();
  expect(await platformOf(delayed)).toEqual({ status: "unknown" });
  await send("a");
  await hasBegun("a");
  expect((await act(delayed, "resume")).status).toBe(202);
  await keeperRound();
  expect(await heldOf(delayed)).toBe("Waits for one of 1 slots of its key, after 0 others.");
  end("a");
  await hasBegun("late");
  end("late");
  expect(await reaches(delayed, "complete")).toBe("complete");
  expect(begun()).toEqual(["a", "late"]);
});

it("messages of a queue without a stored row, and their copies, share the limit", async () => {
  const { end, begun, most, nameOf, command, tenantId } = await crowd(2);
  const message = await envelopeOf((await runLab(async () => undefined)).instanceId);
  const names = Array.from({ length: 6 }, (_, n) => `m${n}`);
  const bodies = names.map((name) => {
    const { payload } = command(name);
    return { ...message, tenant_id: tenantId, payload_inline: payload, idempotency_key: nameOf(name), subject: nameOf(name) };
  });
  expect(await deliver("probe-commands", [...bodies, ...bodies])).toMatchObject({ acked: 12 });
  end("all");
  const ids = names.map((name) => messageIds.instance(tenantId, "lab", nameOf(name)));
  for (const id of ids) expect(await reaches(id, "complete")).toBe("complete");
  expect(begun().toSorted()).toEqual(names);
  expect(most()).toBeLessThanOrEqual(2);
});

it("instances that events start share the limit, also with a payload in R2", async () => {
  noteFlow({ ...countDone, concurrency: { key: ({ step }) => step, limit: 1 } });
  onTestFinished(() => noteFlow(countDone));
  const [tenant_id, step] = [fresh("tenant"), "done"];
  const large = { name: "x".repeat(10), step };
  const ref = `payloads/${tenant_id}/large/${messageIds.fingerprint(large)}`;
  await probeEnv.PAYLOADS.put(ref, JSON.stringify(large));
  const { payload_inline: _, ...byReference } = event("probe.done", "b", large);
  const messages = [event("probe.done", "a", { name: "a", step }), { ...byReference, payload_ref: `r2://${ref}` }].map((one) => ({
    ...one,
    tenant_id,
  }));
  expect(await deliver("probe-events", messages)).toMatchObject({ acked: 2 });
  const started = () =>
    rows<{ status: string; slot: string }>(
      "SELECT status, slot FROM millrace_instances WHERE tenant_id = ?1 AND workflow = 'count-done'",
      tenant_id,
    );
  await until(started, (found) => found.filter(({ status }) => status === "complete").length === 2);
  expect(new Set((await started()).map(({ slot }) => slot)).size).toBe(1);
});

it("children wait for a slot as commands do, and give it on when they end", async () => {
  const { end, begun, most, nameOf, command, hasBegun } = await crowd();
  const names = ["a", "b", "c"];
  for (const name of names) command(name);
  const child = (name: string, step: Steps) => step.child("site", lab, { name: nameOf(name), note: "one" }, { key: name });
  const { instanceId } = await runLab(async ({ step }) => void (await Promise.all(names.map((name) => child(name, step)))), {
    note: fresh("parent"),
  });
  await until(
    async () => begun().length,
    (count) => count === 1,
  );
  expect(await rows("SELECT 1 FROM millrace_instances WHERE parent = ?1 AND slot_turn IS NULL", instanceId)).toHaveLength(1);
  end("all");
  expect(await reaches(instanceId, "complete")).toBe("complete");
  await hasBegun(...names);
  expect(most()).toBe(1);
});

it.each(["A12 gathered commands committed, not enqueued", "A13 gathered commands enqueued, not answered"] as const)(
  "commands of a gatherer that dies keep the limit, and each runs once (%s)",
  async (point) => {
    const { send, end, begun, most, tenantId } = await crowd(2);
    dieAt(point);
    const sent = await Promise.all(Array.from({ length: 8 }, (_, n) => send(`c${n}`).catch(() => send(`c${n}`))));
    end("all");
    await keeperRound();
    for (const id of sent) expect(await reaches(id, "complete")).toBe("complete");
    expect(begun().toSorted()).toEqual(Array.from({ length: 8 }, (_, n) => `c${n}`));
    expect(most()).toBeLessThanOrEqual(2);
    expect(await rows("SELECT 1 FROM millrace_instances WHERE tenant_id = ?1 AND slot_turn IS NOT NULL", tenantId)).toEqual([]);
  },
);

it("an instance that runs again waits for a slot, and a bulk cancel ends waiting commands", async () => {
  const { send, end, begun, hasBegun, act, post, get, heldOf } = await crowd();
  const first = await send("a");
  end("a");
  expect(await reaches(first, "complete")).toBe("complete");
  const second = await send("b");
  await hasBegun("b");
  const again: string = (await act(first, "run-again")).body.instance_id;
  const third = await send("c");
  expect(await heldOf(again)).toContain("after 0 others");
  const { body } = await post("/v1/bulk-actions", { verb: "cancel", ids: [again, third], reason: "test", rate_per_second: 100 });
  const over = () => get(`/v1/bulk-actions/${body.id}`);
  await until(over, ({ body: bulk }) => bulk.state !== "running");
  expect((await over()).body).toMatchObject({ state: "complete", done: 2, failed: 0 });
  await keeperRound();
  for (const id of [again, third]) expect(await reaches(id, "terminated")).toBe("terminated");
  end("all");
  expect(await reaches(second, "complete")).toBe("complete");
  expect(begun()).toEqual(["a", "b"]);
});

it("a raised limit applies at once to the commands accepted after the change, and a lowered one too", async () => {
  const { send, end, begun, hasBegun, heldOf } = await crowd(1);
  const change = (limit: number) => noteFlow({ ...lab, concurrency: { key: ({ note }) => note, limit } });
  await send("a");
  await send("b");
  await hasBegun("a");
  change(3);
  const raised = [await send("c"), await send("d"), await send("e")];
  change(2);
  const last = await send("f");
  end("a");
  await hasBegun("b");
  expect(begun()).toEqual(["a", "b"]);
  end("b");
  await hasBegun("c");
  for (const id of raised) expect(await heldOf(id)).toBeNull();
  await hasBegun("d", "e");
  end("c");
  await until(
    () => heldOf(last),
    (held) => held?.includes("after 0 others") === true,
  );
  expect(begun()).not.toContain("f");
  end("all");
  expect(await reaches(last, "complete")).toBe("complete");
});

it("a limit is refused unless it is a whole number, with a key, and without a lane", () => {
  const declare =
    (concurrency: unknown, queue = defineQueue({ name: "orders" })) =>
    () => {
      const on = defineCommand({
        type: "order.ship",
        payload: z.object({}),
        key: () => "k",
        subject: () => "s",
        queue,
      });
      return defineWorkflow({ name: "ship-order", on, concurrency: concurrency as never, run: async () => null });
    };
  expect(declare({ key: () => "k", limit: 0 })).toThrow("`limit`: a whole number from 1 to 1000");
  expect(declare({ limit: 1 })).toThrow("`key`: a function");
  expect(declare({ key: () => "k", limit: 1 }, defineLaneQueue({ name: "orders" }))).toThrow("remove its flow control, or the lane");
});
