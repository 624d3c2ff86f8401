import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import { type Caller, callerWith, fresh, type Json, until } from "../../api/client.ts";
import { completed } from "../batches/batch.ts";
import { deliver, ledger, loseQueues, outcome, projected, projectedUntil, sent, state } from "./facts.ts";

/** Simulates that this time has passed since the ledger accepted its facts. */
function age(caller: Caller, entity: string, ms: number): Promise<void> {
  return runInDurableObject(ledgerOf(env, caller.tenantId, entity), async (_, { storage }) => {
    storage.sql.exec("UPDATE facts SET recorded_at = recorded_at - ?", ms);
  });
}

function alarmOf(caller: Caller, entity: string): Promise<number | null> {
  return runInDurableObject(ledgerOf(env, caller.tenantId, entity), (_, { storage }) => storage.getAlarm());
}

async function ring(caller: Caller, entity: string): Promise<void> {
  expect(await runDurableObjectAlarm(ledgerOf(env, caller.tenantId, entity))).toBe(true);
}

/** Waits until every consumer has confirmed every fact. */
function settled(caller: Caller, entity: string): Promise<Json> {
  return until(
    () => ledger(caller, entity),
    ({ unconfirmed }) => unconfirmed.projections === 0 && unconfirmed["fact-processing"] === 0,
  );
}

/** Replaces the queue `projections` by a queue of the test, until the ledger is evicted. */
function withQueue(caller: Caller, entity: string, queue: object): Promise<void> {
  return runInDurableObject(ledgerOf(env, caller.tenantId, entity), (instance) => {
    const own = instance as unknown as { env: object };
    own.env = { ...own.env, PROJECTIONS: queue };
  });
}

async function stranger() {
  return { caller: await callerWith(), entity: fresh("account/") };
}

it("a ledger records a consumer's confirmation per queue: facts without consequences are sent only to the projections", async () => {
  const { caller, entity } = await stranger();
  const lost = await loseQueues(caller, entity);
  await state(caller, [outcome(entity), sent(entity), sent(entity)]);
  expect((await ledger(caller, entity)).unconfirmed).toEqual({ projections: 3, "fact-processing": 1 });
  expect(lost.map(({ message_type }) => message_type).toSorted()).toEqual(["fact.outcome", ...Array(3).fill("fact.recorded")]);
  const rows = lost.filter(({ message_type }) => message_type === "fact.recorded");
  expect(await deliver("projections", [rows[2]])).toEqual({ acked: 1, retried: 0 });
  expect((await ledger(caller, entity)).unconfirmed).toEqual({ projections: 2, "fact-processing": 1 });
  await deliver("projections", rows);
  await deliver(
    "fact-processing",
    lost.filter(({ message_type }) => message_type === "fact.outcome"),
  );
  expect((await ledger(caller, entity)).unconfirmed).toEqual({ projections: 0, "fact-processing": 0 });
});

it("a process that dies between append and send, or a queue that loses messages, loses no fact: the alarm sends it again", async () => {
  const { caller, entity } = await stranger();
  const lost = await loseQueues(caller, entity);
  expect(await state(caller, [outcome(entity), sent(entity)])).toMatchObject([{ status: 201 }, { status: 201 }]);
  expect(lost).toHaveLength(3);
  const due = await alarmOf(caller, entity);
  expect(due).toBeGreaterThan(Date.now());
  expect(due).toBeLessThanOrEqual(Date.now() + 10_000);

  await evictDurableObject(ledgerOf(env, caller.tenantId, entity));
  expect(await projected(caller.tenantId)).toEqual([]);
  await age(caller, entity, 10_000);
  await ring(caller, entity);
  expect(await projectedUntil(caller.tenantId, 2)).toHaveLength(2);
  expect((await settled(caller, entity)).unconfirmed).toEqual({ projections: 0, "fact-processing": 0 });
});

it("recent facts are left to the queue; lost facts are sent again with growing delays until confirmed", async () => {
  const { caller, entity } = await stranger();
  const lost = await loseQueues(caller, entity);
  await state(caller, [sent(entity)]);
  lost.length = 0;
  await ring(caller, entity);
  expect(lost).toHaveLength(0);
  await age(caller, entity, 10_000);
  const pauses: number[] = [];
  for (let round = 0; round < 8; round++) {
    await ring(caller, entity);
    pauses.push(Math.round((((await alarmOf(caller, entity)) ?? 0) - Date.now()) / 10_000) * 10);
  }
  expect(lost).toHaveLength(8);
  expect(pauses).toEqual([20, 40, 80, 160, 320, 600, 600, 600]);
  await deliver("projections", lost.slice(0, 1));
  await ring(caller, entity);
  expect(await alarmOf(caller, entity)).toBeNull();
  expect(lost).toHaveLength(8);
});

it("a fact that may still wait in a long queue is not sent a second time", async () => {
  const { caller, entity } = await stranger();
  await loseQueues(caller, entity);
  let sentAgain = 0;
  let oldestMessageTimestamp = new Date(0);
  const metrics = async () => ({ backlogCount: 9, backlogBytes: 9, oldestMessageTimestamp });
  await withQueue(caller, entity, { metrics, sendBatch: async () => void sentAgain++ });
  await state(caller, [sent(entity)]);
  sentAgain = 0;
  await age(caller, entity, 60_000);
  oldestMessageTimestamp = new Date(Date.now() - 90_000);
  await ring(caller, entity);
  expect(sentAgain).toBe(0);
  // The queue's oldest message is younger than the fact: the fact is no longer in the queue.
  oldestMessageTimestamp = new Date(Date.now() - 30_000);
  await ring(caller, entity);
  expect(sentAgain).toBe(1);
  await ring(caller, entity);
  expect(sentAgain).toBe(1);
});

it("a queue that cannot report its backlog is treated as busy: a fact is sent again after ten minutes", async () => {
  const { caller, entity } = await stranger();
  await loseQueues(caller, entity);
  let sentAgain = 0;
  const metrics = () => Promise.reject(new Error("Too many requests"));
  await withQueue(caller, entity, { metrics, sendBatch: async () => void sentAgain++ });
  await state(caller, [sent(entity)]);
  sentAgain = 0;
  await age(caller, entity, 60_000);
  for (let round = 0; round < 6; round++) await ring(caller, entity);
  expect(sentAgain).toBe(0);
  await ring(caller, entity);
  expect(sentAgain).toBe(1);
});

it("a fact that becomes a dead letter leaves the ledger's list, and delays no other fact", async () => {
  const { caller, entity } = await stranger();
  const lost = await loseQueues(caller, entity);
  await state(caller, [sent(entity), sent(entity), sent(entity)]);
  const poison = { ...lost[0], payload_inline: { nonsense: true } };
  expect(await deliver("projections", [poison, lost[1], lost[2]])).toEqual({ acked: 3, retried: 0 });
  expect((await ledger(caller, entity)).unconfirmed.projections).toBe(0);
  expect(await projected(caller.tenantId)).toHaveLength(2);
  const letters = (await caller.get("/v1/dead-letters?queue=projections")).body.items;
  expect(letters).toMatchObject([{ message_type: "fact.recorded", reason: "invalid_payload" }]);

  await state(caller, [sent(entity)]);
  await deliver("projections-dlq", lost.slice(3));
  expect((await ledger(caller, entity)).unconfirmed.projections).toBe(0);
});

it("a fact that no longer matches its type becomes a dead letter, leaves the ledger's list, and delays no other fact", async () => {
  const { caller, entity } = await stranger();
  await loseQueues(caller, entity);
  await state(caller, [outcome(entity), sent(entity)]);
  await runInDurableObject(ledgerOf(env, caller.tenantId, entity), async (_, { storage }) => {
    storage.sql.exec("UPDATE facts SET body = json_set(body, '$.payload.value_cents', 'much') WHERE sequence = 1");
  });
  await evictDurableObject(ledgerOf(env, caller.tenantId, entity));
  await age(caller, entity, 10_000);
  await ring(caller, entity);
  expect((await settled(caller, entity)).unconfirmed).toEqual({ projections: 0, "fact-processing": 0 });
  expect(await projected(caller.tenantId)).toMatchObject([{ sequence: 2 }]);
  const letters: Json[] = (await caller.get("/v1/dead-letters")).body.items;
  expect(letters.map(({ message_type, reason }) => `${message_type} ${reason}`).toSorted()).toEqual([
    "fact.outcome invalid_payload",
    "fact.recorded invalid_payload",
  ]);
});

it("facts with names of the maximum length arrive, including surrogate pairs, published or imported", async () => {
  const { caller } = await stranger();
  const entity = "🧾".repeat(200);
  const facts = ["🐎", "🐇"].map((one) => outcome(entity, { fact_id: one.repeat(200) }));
  expect(await state(caller, facts.slice(0, 1))).toMatchObject([{ status: 201 }]);
  const batch = await completed(caller, JSON.stringify(facts[1]), { dataset: "facts", type: "application/x-ndjson" });
  expect(batch.rows).toMatchObject({ done: 1, failed: 0 });
  expect((await projectedUntil(caller.tenantId, 2, entity)).map(({ fact_id }) => fact_id)).toEqual(facts.map(({ fact_id }) => fact_id));
  expect((await settled(caller, entity)).unconfirmed).toEqual({ projections: 0, "fact-processing": 0 });
});

it("an eviction of a ledger loses no fact and no confirmation, and confirmations of unknown positions are ignored", async () => {
  const { caller, entity } = await stranger();
  const stub = () => ledgerOf(env, caller.tenantId, entity);
  const lost = await loseQueues(caller, entity);
  await state(caller, [sent(entity), sent(entity)]);
  await stub().confirm("projections", [2, 99], 0);
  await evictDurableObject(stub());
  expect(await ledger(caller, entity)).toMatchObject({ last: 2, unconfirmed: { projections: 1 } });
  await loseQueues(caller, entity);
  await state(caller, [sent(entity)]);
  await evictDurableObject(stub());
  expect((await ledger(caller, entity)).unconfirmed.projections).toBe(2);
  await deliver("projections", lost);
  expect((await ledger(caller, entity)).unconfirmed.projections).toBe(1);
});

it("a completely confirmed ledger sends nothing again and calls no queue", async () => {
  const { caller, entity } = await stranger();
  const lost = await loseQueues(caller, entity);
  await state(caller, [sent(entity), sent(entity)]);
  await age(caller, entity, 60_000);
  await ledgerOf(env, caller.tenantId, entity).confirm("projections", [1, 2], 0);
  lost.length = 0;
  let asked = 0;
  await withQueue(caller, entity, { metrics: async () => ({ backlogCount: asked++, backlogBytes: 0 }) });
  await ring(caller, entity);
  expect(lost).toEqual([]);
  expect(asked).toBe(0);
  expect(await alarmOf(caller, entity)).toBeNull();
});

it("a replay sends a ledger of several slices completely, for any number of confirmed facts", async () => {
  const { caller, entity } = await stranger();
  const lost = await loseQueues(caller, entity);
  const stub = ledgerOf(env, caller.tenantId, entity);
  for (let slice = 0; slice < 11; slice++)
    await state(
      caller,
      Array.from({ length: 100 }, () => sent(entity)),
    );
  const recorded = lost.filter(({ message_type }) => message_type === "fact.recorded");
  await stub.confirm(
    "projections",
    Array.from({ length: 1100 }, (_, index) => index + 1),
    0,
  );
  expect(recorded.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 1100 }, (_, index) => index + 1));
  expect((await ledger(caller, entity)).unconfirmed.projections).toBe(0);

  lost.length = 0;
  await stub.replay("projections");
  await until(
    async () => lost.length,
    (length) => length >= 1100,
  );
  expect(lost.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 1100 }, (_, index) => index + 1));
  await evictDurableObject(stub);
  await stub.replay("projections");
  expect(await projectedUntil(caller.tenantId, 1100)).toHaveLength(1100);
  expect((await settled(caller, entity)).unconfirmed.projections).toBe(0);
});

it("retention deletes the content of old facts, but not their names, and stops at unconfirmed ones", async () => {
  const { caller, entity } = await stranger();
  const facts = Array.from({ length: 5 }, () => sent(entity));
  const lost = await loseQueues(caller, entity);
  await state(caller, facts);
  const stub = ledgerOf(env, caller.tenantId, entity);
  await deliver("projections", [...lost.slice(0, 3), ...lost.slice(4)]);
  const later = Date.now() + 1000;
  expect(await stub.prune(0, 100)).toBe(0);
  expect(await stub.prune(later, 2)).toBe(2);
  expect(await stub.prune(later, 100)).toBe(1);
  expect(await ledger(caller, entity)).toMatchObject({ first: 4, last: 5, kept: 2, items: [{ sequence: 4 }, { sequence: 5 }] });
  await deliver("projections", lost);
  expect(await stub.prune(later, 100)).toBe(2);
  expect(await ledger(caller, entity)).toMatchObject({ first: 6, last: 5, kept: 0, items: [] });

  const [again, other, next] = await state(caller, [facts[1], { ...facts[2], subtype: "else" }, sent(entity)]);
  expect(again).toMatchObject({ status: 200, duplicate: true, sequence: 2 });
  expect(other.problem.code).toBe("idempotency_key_reused");
  expect(next).toMatchObject({ status: 201, sequence: 6 });
});
