import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import type { LaneObject } from "../../../packages/millrace/src/lanes/lane-object.ts";
import { blocking, small } from "../../probe/lanes.ts";
import { until } from "../harness.ts";
import { keptIn } from "../kept.ts";
import { LabLane, numbers } from "./lab.ts";

it("a message that is sent again with the same idempotency key is stored once, while it waits and after its delivery", async () => {
  const lane = new LabLane(blocking);
  await lane.object.pause().catch(() => undefined);
  const [first] = await lane.client.sendBatch([lane.message(0, { idempotencyKey: "a" })]);
  expect(first).toMatchObject({ duplicate: false });
  expect(await lane.client.send(lane.message(1).body, { idempotencyKey: "a" })).toEqual({ id: first?.id, duplicate: true });
  await lane.object.resume();
  await lane.is("empty");
  expect(await lane.client.send(lane.message(2).body, { idempotencyKey: "a" })).toEqual({ id: first?.id, duplicate: true });
  await lane.send(3);
  await lane.is("empty");
  expect(lane.calls.flat()).toEqual([0, 3]);
});

it("a batch with the same idempotency key twice keeps the first message", async () => {
  const lane = new LabLane(blocking);
  const sent = await lane.client.sendBatch(
    ["a", "b", "a", undefined, undefined].map((idempotencyKey, n) => lane.message(n, { idempotencyKey })),
  );
  expect(sent.map(({ duplicate }) => duplicate)).toEqual([false, false, true, false, false]);
  expect(sent[2]?.id).toBe(sent[0]?.id);
  await lane.is("empty");
  expect(lane.calls).toEqual([[0, 1, 3, 4]]);
});

it("a lane deletes an expired idempotency key by an alarm, but not while its message waits", async () => {
  let open = false;
  const lane = new LabLane(small, async () => {
    while (!open) await scheduler.wait(5);
  });
  const send = (n: number) => lane.client.send(lane.message(n).body, { idempotencyKey: "a" });
  const first = await send(0);
  for (const _ of numbers(4)) {
    await scheduler.wait(60);
    await runDurableObjectAlarm(lane.stub);
    expect(await send(1)).toEqual({ id: first.id, duplicate: true });
  }
  open = true;
  await lane.is("empty");
  const again = await until(
    async () => {
      await runDurableObjectAlarm(lane.stub);
      return send(2);
    },
    ({ duplicate }) => !duplicate,
  );
  expect(again.id).not.toBe(first.id);
});

it("an empty lane without idempotency keys stores nothing, and starts again with the next message", async () => {
  const lane = new LabLane(small);
  await lane.client.send(lane.message(0).body, { idempotencyKey: "a" });
  await lane.is("empty");
  const left = await until(
    async () => {
      await runDurableObjectAlarm(lane.stub);
      return keptIn(lane.stub);
    },
    (kept) => kept === "",
    5000,
  );
  expect(left).toBe("");
  await lane.send(1);
  await lane.is("empty");
  expect(lane.calls.flat()).toEqual([0, 1]);
});

it("a lane that is paused or has a dead letter keeps its stored state", async () => {
  const [paused, parked] = [new LabLane(small), new LabLane(small, () => Promise.reject(new Error("Never.")))];
  for (const lane of [paused, parked]) await lane.client.send(lane.message(0).body, { idempotencyKey: "a" });
  await paused.is("empty");
  await paused.object.pause();
  await parked.is("empty");
  for (const _ of numbers(4)) {
    await scheduler.wait(60);
    for (const lane of [paused, parked]) await runDurableObjectAlarm(lane.stub);
  }
  expect([(await paused.object.look()).state, (await parked.object.look()).letters]).toEqual(["paused", 1]);
});

it("a message that is sent while a lane deletes its stored state is kept, also when the object dies", async () => {
  let open = false;
  const lane = new LabLane(blocking, () => open || Promise.reject(new Error("Not yet.")));
  await lane.send(0);
  await runInDurableObject(lane.stub, async (instance) => {
    const object = instance as unknown as LaneObject;
    const erased = object.erase();
    await Promise.all([erased, object.send([{ text: JSON.stringify(lane.message(1).body), key: null, delayMs: 0 }])]);
  });
  await lane.die();
  open = true;
  await lane.is("empty");
  expect(lane.calls.at(-1)).toEqual([1]);
});
