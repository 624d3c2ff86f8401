import { runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import type { PullLetter } from "../../../packages/millrace/src/pull/definition.ts";
import { pullLetterTakers, renders } from "../../probe/pull.ts";
import { until } from "../../until.ts";
import { LabQueue, movedClock, textOf } from "./lab.ts";

it("a pull queue that dies after any write loses nothing: sent, leased and finished messages keep their states", async () => {
  using clock = movedClock();
  const queue = new LabQueue(renders);
  await queue.send("a", "b", "c", "d");
  await queue.crash();
  const [a, b, c, d] = (await queue.pull({ batch_size: 4 })) as [never, never, never, never];
  await queue.crash();
  expect(await queue.pull()).toEqual([]);
  expect(await queue.ack([a], [{ ...(b as object), delay_seconds: 60 } as never])).toMatchObject({ ackCount: 1, retryCount: 1 });
  await queue.crash();
  expect(await queue.object.look()).toMatchObject({ depth: 3, leased: 2, waiting: 1 });
  expect(await queue.ack([a, c])).toMatchObject({ ackCount: 1 });
  await queue.crash();
  clock.pass(60_001);
  expect((await queue.pull()).map((message) => [textOf(message), message.attempts])).toEqual([["b", 2]]);
  await queue.crash();
  clock.pass(3_600_001);
  expect((await queue.pull()).map((message) => [textOf(message), message.attempts])).toEqual([
    ["b", 3],
    ["d", 2],
  ]);
  expect(await queue.ack([d])).toMatchObject({ ackCount: 0 });
});

it("an expired lease is ended by the alarm also when the object of its pull queue has died", async () => {
  const queue = new LabQueue(renders);
  await queue.send("lost");
  await queue.pull({ visibility_timeout_ms: 50 });
  await queue.crash();
  const left = await until(
    () => runInDurableObject(queue.object as never, (_, { storage }) => storage.sql.exec("SELECT id FROM pull_leases").toArray()),
    (leases) => leases.length === 0,
  );
  expect(left).toEqual([]);
  expect((await queue.pull()).map(({ attempts }) => attempts)).toEqual([2]);
});

it("a dead letter of a pull queue is stored before its message is deleted, and an interrupted hand-over is repeated", async () => {
  const queue = new LabQueue(renders);
  const taken: PullLetter[] = [];
  let calls = 0;
  pullLetterTakers.set(queue.tenant, (letter) => {
    if (++calls === 1) return new Promise(() => {});
    return void taken.push(letter);
  });
  await queue.send("poison");
  for (let attempt = 0; attempt < 3; attempt++) await queue.ack([], await queue.pull());
  await until(
    async () => calls,
    (count) => count === 1,
  );
  await queue.crash();
  await until(
    () => queue.object.look(),
    ({ letters }) => letters === 0,
  );
  expect(taken.map(({ body, attempts }) => [body, attempts])).toEqual([["poison", 3]]);
});
