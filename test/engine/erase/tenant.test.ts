import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { counterOf } from "millrace/counters";
import { laneOf } from "millrace/lanes";
import { withLock } from "millrace/locks";
import { erasure } from "millrace/operate";
import { expect, it } from "vitest";
import type { CounterEnv } from "../../../packages/millrace/src/counters/client.ts";
import type { LockEnv } from "../../../packages/millrace/src/locks/client.ts";
import { blocking, handlers } from "../../probe/lanes.ts";
import { keepings } from "../../probe/pull.ts";
import { desk } from "../../probe/rooms.ts";
import { blocked } from "../../probe/turns.ts";
import { until } from "../../until.ts";
import { fresh, probeEnv, rows } from "../harness.ts";
import { keptIn } from "../kept.ts";
import { laneEnv } from "../lanes/lab.ts";
import { TurnKey } from "../lanes/turning.ts";
import { LabQueue } from "../pull/lab.ts";
import { LabRoom } from "../rooms/lab.ts";

const tenantOf = () => fresh("tenant").toLowerCase();

/** Erases a tenant's Durable Objects as its deletion does, until none is found. */
async function eraseAll(tenant: string): Promise<void> {
  while ((await erasure.stopInstances(probeEnv, tenant, "")) > 0);
  for (let found = 1; found > 0; )
    found = (await erasure.objects(probeEnv, tenant)) + (await erasure.removeInstances(probeEnv, tenant, ""));
}

it("a deleted tenant's rooms are erased with their messages, keys and sockets; another tenant's rooms are kept", async () => {
  const [room, other] = [new LabRoom(desk), new LabRoom(desk)];
  const ada = await room.enter("ada");
  for (const one of [room, other]) await one.client.send({ text: "secret" }, { idempotencyKey: "k" });
  expect(await keptIn(room.object)).toContain("secret");
  await eraseAll(room.tenant);
  expect(await keptIn(room.object)).toBe("");
  expect(await ada.isClosed()).toMatchObject({ code: 4403 });
  expect(await keptIn(other.object)).toContain("secret");
  expect(await erasure.countRows(probeEnv, room.tenant, "millrace_tenant_objects")).toBe(0);
});

it("a deleted tenant's pull queues are erased with their messages, leases, dead letters, keys and alarm", async () => {
  const queue = new LabQueue(keepings);
  await queue.send("given up");
  await queue.ack([], await queue.pull());
  await queue.client.send("secret", { idempotencyKey: "k" });
  await queue.pull();
  expect(await keptIn(queue.object)).toContain("secret");
  await eraseAll(queue.tenant);
  expect(await keptIn(queue.object)).toBe("");
});

it("the lanes of a deleted tenant are erased, also a waiting lane and a stopped custom lane", async () => {
  const tenant = tenantOf();
  const [waiting, flowed] = [new TurnKey(blocked, tenant), new TurnKey(blocked, tenant)];
  const open = waiting.gate("first");
  await waiting.askAll("first", "second");
  await flowed.ask("only");
  await flowed.reaches("only", "complete");
  const key = fresh("lane");
  handlers.set(key, () => Promise.reject(new Error("Not today.")));
  await laneOf(laneEnv, blocking, key, { tenant }).send({ n: 0, note: key });
  const own = laneEnv.LANES.getByName(JSON.stringify([blocking.name, tenant, key]));
  await runInDurableObject(own, (instance) => (instance as unknown as { pause(): void }).pause());
  await until(
    () => erasure.countRows(probeEnv, tenant, "millrace_lanes"),
    (count) => count > 0,
  );
  for (const stub of [waiting.stub, flowed.stub, own]) expect(await keptIn(stub)).not.toBe("");
  await eraseAll(tenant);
  open();
  await eraseAll(tenant);
  for (const stub of [waiting.stub, flowed.stub, own]) expect(await keptIn(stub)).toBe("");
  expect(await rows("SELECT id FROM millrace_instances WHERE tenant_id = ?1", tenant)).toEqual([]);
});

it("a long-held lock of a deleted tenant is revoked and erased", async () => {
  const [tenantId, name] = [tenantOf(), fresh("lock")];
  const stub = (env as unknown as Required<LockEnv>).LOCK.getByName(`${tenantId}/${name}`);
  const work = withLock(env as unknown as LockEnv, name, { tenantId, ttl: "1 second", holder: "ada" }, async ({ signal }) => {
    await probeEnv.DB.prepare("INSERT INTO millrace_locks (tenant_id, name, token) VALUES (?1, ?2, 1)").bind(tenantId, name).run();
    await eraseAll(tenantId);
    await until(
      async () => signal.aborted,
      (lost) => lost,
    );
  });
  await expect(work).rejects.toMatchObject({ code: "lock_lost" });
  expect(await keptIn(stub)).toBe("");
});

it("after a crash between the erasure of an object and of its row, the next run erases the object again", async () => {
  const room = new LabRoom(desk);
  await room.client.send({ text: "one" });
  // As after a crash, the object is deleted and its row is not.
  await room.object.erase();
  expect(await erasure.countRows(probeEnv, room.tenant, "millrace_tenant_objects")).toBe(1);
  await room.client.send({ text: "two" });
  await eraseAll(room.tenant);
  expect([await keptIn(room.object), await erasure.countRows(probeEnv, room.tenant, "millrace_tenant_objects")]).toEqual(["", 0]);
});

it("a deleted tenant leaves no data in an object that the database could not register", async () => {
  const room = new LabRoom(desk);
  await probeEnv.DB.prepare("ALTER TABLE millrace_tenant_objects RENAME TO millrace_tenant_objects_away").run();
  try {
    await expect(room.client.send({ text: "secret" })).rejects.toMatchObject({ code: "unavailable" });
  } finally {
    await probeEnv.DB.prepare("ALTER TABLE millrace_tenant_objects_away RENAME TO millrace_tenant_objects").run();
  }
  expect(await keptIn(room.object)).toBe("");
});

it("an erased counter begins at 0, and its shards are empty", async () => {
  const name = fresh("counter");
  const counter = counterOf(env as unknown as CounterEnv, name, { shards: 2 });
  await counter.addAll([
    { n: 1, key: "ada" },
    { n: 2, key: "bob" },
    { n: 3, key: "cyd" },
  ]);
  await counter.read();
  await counter.erase();
  expect(await counter.read({ maxAgeMs: 60_000 })).toBe(0);
  for (const shard of [0, 1]) expect(await keptIn((env as unknown as Required<CounterEnv>).COUNTER.getByName(`${name}/${shard}`))).toBe("");
});

it("the deletion of a tenant includes the database tables that list its Durable Objects, lanes and locks", () => {
  expect(Object.keys(erasure.tenantTables)).toEqual(
    expect.arrayContaining(["millrace_tenant_objects", "millrace_lanes", "millrace_locks"]),
  );
});
