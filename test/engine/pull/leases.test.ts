import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import type { PullLetter } from "../../../packages/millrace/src/pull/definition.ts";
import { keepings, pullLetterTakers, renders } from "../../probe/pull.ts";
import { until } from "../../until.ts";
import { ALONE, LabQueue, movedClock, textOf } from "./lab.ts";

it("a leased message is given to no other consumer until it is acknowledged or its lease expires", async () => {
  const queue = new LabQueue(renders);
  await queue.send("one", "two", "three");
  const first = await queue.pull({ batch_size: 2 });
  expect(first.map(textOf)).toEqual(["one", "two"]);
  expect((await queue.pull()).map(textOf)).toEqual(["three"]);
  expect(await queue.pull()).toEqual([]);
  expect(await queue.ack(first)).toEqual({ ackCount: 2, retryCount: 0, warnings: {} });
  expect(await queue.object.look()).toMatchObject({ depth: 1, leased: 1, waiting: 0, letters: 0 });
});

it("a message with an expired lease is delivered again with one more attempt, and a late acknowledgement is reported and has no effect", async () => {
  using clock = movedClock();
  const queue = new LabQueue(renders);
  await queue.send("slow");
  const late = await queue.pull({ visibility_timeout_ms: 60_000 });
  clock.pass(60_001);
  const [again] = await queue.pull();
  expect(again).toMatchObject({ id: late[0]?.id, attempts: 2 });
  expect(again?.lease_id).not.toBe(late[0]?.lease_id);
  expect(await queue.ack(late)).toEqual({
    ackCount: 0,
    retryCount: 0,
    warnings: { [late[0]?.lease_id ?? ""]: expect.stringContaining("expired") },
  });
  expect(await queue.object.look()).toMatchObject({ depth: 1, leased: 1 });
});

it("a late acknowledgement has no effect also when no pull has followed the lease's expiry", async () => {
  using clock = movedClock();
  const queue = new LabQueue(renders);
  await queue.send("slow");
  const late = await queue.pull({ visibility_timeout_ms: 60_000 });
  clock.pass(60_001);
  expect(await queue.ack(late)).toMatchObject({ ackCount: 0 });
  expect((await queue.pull()).map(({ attempts }) => attempts)).toEqual([2]);
});

it("a released message is delivered again at once or after its delay, unless the same request acknowledges it", async () => {
  using clock = movedClock();
  const queue = new LabQueue(renders);
  await queue.send("now", "later", "both");
  const [now, later, both] = (await queue.pull()) as [never, never, never];
  const settled = await queue.ack([both], [now, { ...(later as object), delay_seconds: 600 } as never, both]);
  expect(settled).toEqual({ ackCount: 1, retryCount: 2, warnings: {} });
  expect((await queue.pull()).map(textOf)).toEqual(["now"]);
  clock.pass(600_001);
  expect((await queue.pull()).map((message) => [textOf(message), message.attempts])).toEqual([["later", 2]]);
});

it("a delayed message waits, and the message with the oldest due time is delivered first", async () => {
  using clock = movedClock();
  const queue = new LabQueue(renders);
  await queue.client.send("delayed", { delaySeconds: 60 });
  await queue.send("fresh");
  expect((await queue.pull()).map(textOf)).toEqual(["fresh"]);
  await queue.send("later");
  clock.pass(60_001);
  expect((await queue.pull()).map(textOf)).toEqual(["delayed", "later"]);
});

it("a message without deliveries left becomes a dead letter, and its hand-over is repeated until the handler succeeds", async () => {
  const queue = new LabQueue(renders);
  const letters: PullLetter[] = [];
  let failures = 1;
  pullLetterTakers.set(queue.tenant, (letter) => {
    if (failures-- > 0) throw new Error("The desk is closed.");
    letters.push(letter);
  });
  const [sent] = await queue.send({ scene: 7 });
  for (let attempts = 1; attempts <= 3; attempts++) {
    const messages = await queue.pull();
    expect(messages.map((one) => one.attempts)).toEqual([attempts]);
    await queue.ack([], messages);
  }
  expect(await queue.pull()).toEqual([]);
  const [kept] = await until(
    () => queue.object.letters(),
    ([letter]) => letter?.tries === 1,
  );
  expect(kept).toMatchObject({ id: sent?.id, handOffError: "The desk is closed.", reason: "exhausted" });
  await until(
    async () => letters.length,
    (count) => count === 1,
  );
  const letter = { queue: "renders", tenant: queue.tenant, id: sent?.id, body: { scene: 7 }, reason: "exhausted", attempts: 3 };
  expect(letters).toEqual([expect.objectContaining(letter)]);
  await until(
    () => queue.object.look(),
    (look) => look.letters === 0,
  );
  expect(await queue.object.look()).toMatchObject({ depth: 0, leased: 0, letters: 0 });
});

it("the alarm ends an expired lease, and makes its message a dead letter after its last delivery, also if no client pulls", async () => {
  const queue = new LabQueue(keepings, ALONE);
  await queue.send("lost");
  await queue.pull({ visibility_timeout_ms: 20 });
  const look = await until(
    () => queue.object.look(),
    ({ letters }) => letters === 1,
  );
  expect(look).toMatchObject({ depth: 0, leased: 0, letters: 1 });
  const [letter] = await queue.object.letters();
  expect(letter).toMatchObject({ body: "lost", reason: "exhausted", attempts: 1 });
  expect(await queue.object.replayLetter(letter?.id ?? "")).toBe(true);
  expect((await queue.pull()).map(({ id, attempts }) => [id, attempts])).toEqual([[letter?.id, 1]]);
  expect(await queue.object.replayLetter("none")).toBe(false);
});

it("a message past its retention is dropped, but not while it is leased", async () => {
  using clock = movedClock();
  const queue = new LabQueue(keepings, ALONE);
  await queue.send("held", "old");
  const held = await queue.pull({ batch_size: 1, visibility_timeout_ms: 600_000 });
  clock.pass(60_001);
  await queue.send("young");
  await runDurableObjectAlarm(queue.object as never);
  expect(await queue.object.letters()).toMatchObject([{ body: "old", reason: "expired", attempts: 0 }]);
  expect(await queue.ack(held)).toMatchObject({ ackCount: 1 });
  expect((await queue.pull()).map(textOf)).toEqual(["young"]);
});

it("a message past its retention is dropped and not delivered although an earlier message has a longer lease", async () => {
  using clock = movedClock();
  const queue = new LabQueue(keepings, ALONE);
  await queue.send("held");
  const held = await queue.pull({ visibility_timeout_ms: 43_200_000 });
  clock.pass(2000);
  await queue.send("old");
  clock.pass(60_000);
  expect(await queue.pull()).toEqual([]);
  const alarmAt = await runInDurableObject(queue.object as never, (_, { storage }) => storage.getAlarm());
  expect(alarmAt).toBeLessThanOrEqual(Date.now());
  await runDurableObjectAlarm(queue.object as never);
  expect(await queue.object.letters()).toMatchObject([{ body: "old", reason: "expired", attempts: 0 }]);
  await queue.ack([], held);
  expect(await queue.pull()).toEqual([]);
});

it("the alarm drops messages past their retention without a pull, also after a leased message", async () => {
  using clock = movedClock();
  const queue = new LabQueue(keepings, ALONE);
  await queue.send("held");
  await queue.pull({ visibility_timeout_ms: 43_200_000 });
  clock.pass(2000);
  await queue.send("old");
  for (const ms of [58_001, 2000]) {
    clock.pass(ms);
    expect(await runInDurableObject(queue.object as never, (_, { storage }) => storage.getAlarm())).toBeLessThanOrEqual(Date.now());
    await runDurableObjectAlarm(queue.object as never);
  }
  expect(await queue.object.letters()).toMatchObject([{ body: "old", reason: "expired" }]);
});

it("of several due messages the first one sent is delivered first, for any order of due times", async () => {
  using clock = movedClock();
  const queue = new LabQueue(renders);
  await queue.client.sendBatch([3, 1, 2].map((delaySeconds, at) => ({ body: at + 1, delaySeconds })));
  clock.pass(3001);
  const pulled = [await queue.pull({ batch_size: 1 }), await queue.pull({ batch_size: 1 }), await queue.pull({ batch_size: 1 })];
  expect(pulled.flat().map(textOf)).toEqual([1, 2, 3]);
});

it("one idempotency key is one message while the key is remembered, also after the message is done", async () => {
  using clock = movedClock();
  const queue = new LabQueue(keepings, ALONE);
  const first = await queue.client.send("once", { idempotencyKey: "render/7" });
  const [again, other] = await queue.client.sendBatch([
    { body: "once", idempotencyKey: "render/7" },
    { body: "other", idempotencyKey: "render/8" },
  ]);
  expect(again).toEqual({ id: first.id, duplicate: true });
  expect(other?.duplicate).toBe(false);
  await queue.ack(await queue.pull());
  await queue.crash();
  expect(await queue.client.send("once", { idempotencyKey: "render/7" })).toEqual({ id: first.id, duplicate: true });
  clock.pass(60_001);
  expect((await queue.client.send("once", { idempotencyKey: "render/7" })).duplicate).toBe(false);
});

it("an erased pull queue contains nothing, and accepts messages as before", async () => {
  const queue = new LabQueue(renders);
  await queue.send("one", "two");
  await queue.pull({ batch_size: 1 });
  await queue.object.erase();
  expect(await queue.object.look()).toMatchObject({ depth: 0, leased: 0 });
  expect(await queue.pull()).toEqual([]);
  await queue.send("three");
  expect((await queue.pull()).map(textOf)).toEqual(["three"]);
});
