import { evictDurableObject, introspectWorkflowInstance, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { instanceId } from "../../src/engine/contract/ids.ts";
import { ledgerOf } from "../../src/objects/ledgers.ts";
import { type Caller, callerWith, expectProblem, fresh, type Json, reaches, until } from "../api/client.ts";
import { deliver, ledger, loseQueues, projected, projectedUntil, sent, state } from "./facts.ts";

/** The instance that a tenant's rebuild under this request will be. */
function rebuildOf(caller: Caller, request: string): string {
  return instanceId(caller.tenantId, "rebuild-projection", `facts/${request}`);
}

async function rebuild(caller: Caller, request: string): Promise<string> {
  const { status, body, headers } = await caller.post("/v1/projections/facts/rebuild", { request });
  expect(status).toBe(202);
  expect(headers.get("location")).toBe(`/v1/instances/${body.instance_id}`);
  expect(body.instance_id).toBe(rebuildOf(caller, request));
  return body.instance_id;
}

async function outputOf(id: string): Promise<unknown> {
  return (await (await env.REBUILD_PROJECTION.get(id)).status()).output;
}

/** A tenant with facts of so many ledgers, all of them projected. */
async function tenantWith(ledgers: number, factsEach: number) {
  const caller = await callerWith();
  const entities = Array.from({ length: ledgers }, () => fresh("account/"));
  const facts = entities.flatMap((entity) => Array.from({ length: factsEach }, () => sent(entity)));
  for (let at = 0; at < facts.length; at += 100) await state(caller, facts.slice(at, at + 100));
  const before = await projectedUntil(caller.tenantId, facts.length);
  expect(before).toHaveLength(facts.length);
  return { caller, entities, before };
}

it("drops a tenant's rows and restores exactly the same ones, while new facts keep flowing; asked again it is the same rebuild", async () => {
  const { caller, entities, before } = await tenantWith(3, 250);
  const neighbour = await tenantWith(1, 3);
  const untouched = await env.DB.prepare("SELECT * FROM facts WHERE tenant_id = ?1").bind(neighbour.caller.tenantId).all();
  // What a careless hand did to the projection.
  await env.DB.batch([
    env.DB.prepare(
      "UPDATE facts SET body = json_set(body, '$.payload', json('{}'), '$.type', 'charge') WHERE tenant_id = ?1 AND sequence = 7",
    ).bind(caller.tenantId),
    env.DB.prepare("DELETE FROM facts WHERE tenant_id = ?1 AND entity = ?2 AND sequence > 100").bind(caller.tenantId, entities[0]),
  ]);
  const id = await rebuild(caller, "careless hand");
  const late = sent(entities[1] as string);
  await state(caller, [late]);
  await reaches(caller, id, "complete");
  expect(await outputOf(id)).toEqual({ ledgers: 3, facts: expect.any(Number), missing: 0 });
  const after = await projectedUntil(caller.tenantId, 751);
  expect(after.filter(({ fact_id }) => fact_id !== late.fact_id)).toEqual(before);
  expect(after).toHaveLength(751);
  expect(await env.DB.prepare("SELECT * FROM facts WHERE tenant_id = ?1").bind(neighbour.caller.tenantId).all()).toMatchObject({
    results: untouched.results,
  });

  const again = await caller.post("/v1/projections/facts/rebuild", { request: "careless hand" });
  expect(again.body).toMatchObject({ instance_id: id, replayed: true });
  const [standing] = (await caller.get("/v1/projections")).body.items;
  expect(standing).toMatchObject({ rows: 751, ledgers: 3, rebuild: { instance_id: id, status: "complete", under_way: false } });
  // Rows that the rebuild has put there again say nothing of how far the projection is behind.
  expect(standing.lag_ms?.rows ?? 0).toBeLessThanOrEqual(1);
});

it("is the command projection.rebuild, whose request is its key", async () => {
  const { caller, before } = await tenantWith(1, 2);
  const payload = { projection: "facts", request: "by command" };
  const { body } = await caller.post("/v1/commands", { type: "projection.rebuild", payload });
  expect(body.instance_id).toBe(rebuildOf(caller, "by command"));
  await reaches(caller, body.instance_id, "complete");
  expect(await projected(caller.tenantId)).toEqual(before);
  expectProblem(await caller.post("/v1/projections/facts/rebuild", { request: "" }), 422, "invalid_payload");
});

it("goes on behind a ledger whose name is as long as names may be", async () => {
  const caller = await callerWith();
  const long = Array.from({ length: 100 }, (_, index) => sent(`order/${String(index).padStart(4, "0")}${"x".repeat(190)}`));
  await state(caller, long);
  await state(caller, [sent("order/z")]);
  await projectedUntil(caller.tenantId, 101);
  const id = await rebuild(caller, "long names");
  await reaches(caller, id, "complete");
  expect(await outputOf(id)).toEqual({ ledgers: 101, facts: 101, missing: 0 });
});

it("is asked for with the scope operate, also as a command", async () => {
  const caller = await callerWith(["enqueue", "read"]);
  expectProblem(await caller.post("/v1/projections/facts/rebuild", { request: "r" }), 403, "forbidden");
  const command = { type: "projection.rebuild", payload: { projection: "facts", request: "r" } };
  const { detail } = expectProblem(await caller.post("/v1/commands", command), 403, "forbidden");
  expect(detail).toContain("POST /v1/projections/facts/rebuild");
});

it("of a tenant without facts ends at once", async () => {
  const caller = await callerWith();
  const id = await rebuild(caller, "nothing");
  await reaches(caller, id, "complete");
  expect(await outputOf(id)).toEqual({ ledgers: 0, facts: 0, missing: 0 });
});

it("restarted in the middle ends in the same rows", async () => {
  const { caller, before } = await tenantWith(2, 150);
  const id = rebuildOf(caller, "restarted");
  await using instance = await introspectWorkflowInstance(env.REBUILD_PROJECTION, id);
  await rebuild(caller, "restarted");
  await instance.waitForStepResult({ name: "drop and replay [after ]" });
  const platform = await env.REBUILD_PROJECTION.get(id);
  expect((await platform.status()).status).not.toBe("complete");
  await platform.restart();
  await reaches(caller, id, "complete");
  expect(await projected(caller.tenantId)).toEqual(before);
  expect(await outputOf(id)).toEqual({ ledgers: 2, facts: 300, missing: 0 });
});

it("takes a hundred ledgers a step", async () => {
  const { caller, before } = await tenantWith(230, 1);
  const id = await rebuild(caller, "many");
  await reaches(caller, id, "complete");
  expect(await projected(caller.tenantId)).toEqual(before);
  const { items } = (await caller.get(`/v1/instances/${id}/effects`)).body;
  expect(items.map(({ output }: Json) => output.length)).toEqual([100, 100, 30]);
});

it("leaves rows alone whose ledger has forgotten what they say", async () => {
  const { caller, entities, before } = await tenantWith(1, 6);
  const entity = entities[0] as string;
  await until(
    () => ledger(caller, entity),
    ({ unconfirmed }) => unconfirmed.projections === 0,
  );
  expect(await ledgerOf(env, caller.tenantId, entity).prune(Date.now() + 1000, 4)).toBe(4);
  const id = await rebuild(caller, "pruned");
  await reaches(caller, id, "complete");
  expect(await projected(caller.tenantId)).toEqual(before);
  expect(await outputOf(id)).toEqual({ ledgers: 1, facts: 2, missing: 0 });
});

it("does not believe a confirmation of rows that it has just dropped", async () => {
  const { caller, entities, before } = await tenantWith(1, 4);
  const entity = entities[0] as string;
  await until(
    () => ledger(caller, entity),
    ({ unconfirmed }) => unconfirmed.projections === 0,
  );
  const lost = await loseQueues(caller, entity);
  const id = await rebuild(caller, "late");
  await until(
    async () => lost.length,
    (length) => length === 4,
  );
  expect(lost.map(({ source }) => source)).toEqual(Array(4).fill("ledger/1"));
  const stub = ledgerOf(env, caller.tenantId, entity);
  await stub.confirm("projections", [1, 2, 3, 4], 0);
  expect((await ledger(caller, entity)).unconfirmed.projections).toBe(4);
  await evictDurableObject(stub);
  // Time for the ledger's next round.
  await runInDurableObject(stub, (_, { storage }) => void storage.sql.exec("UPDATE facts SET recorded_at = recorded_at - 60000"));
  await runDurableObjectAlarm(stub);
  await reaches(caller, id, "complete");
  expect(await projected(caller.tenantId)).toEqual(before);
});

it("that can never agree ends with a sentence that names what is missing, and the rest is restored", async () => {
  const { caller, entities, before } = await tenantWith(2, 3);
  const broken = entities[1] as string;
  await runInDurableObject(ledgerOf(env, caller.tenantId, broken), async (_, { storage }) => {
    storage.sql.exec("UPDATE facts SET body = json_set(body, '$.trace_id', 'short') WHERE sequence = 2");
  });
  const id = rebuildOf(caller, "never");
  await using instance = await introspectWorkflowInstance(env.REBUILD_PROJECTION, id);
  const pauses = Array.from({ length: 20 }, (_, look) => ({ name: `let facts arrive [${look + 3}]` }));
  await instance.modify((modifier) => modifier.disableSleeps(pauses));
  await rebuild(caller, "never");
  const { error } = await reaches(caller, id, "errored");
  expect(error).toMatchObject({ code: "not_retryable" });
  expect(error.message).toContain("still lacks 1 facts of 1 ledgers");
  expect(error.message).toContain(`number 2 of ${broken}`);
  expect(await projected(caller.tenantId)).toEqual(before.filter(({ entity, sequence }) => entity !== broken || sequence !== 2));
  expect((await caller.get("/v1/projections")).body.items[0].rebuild).toMatchObject({ status: "errored", under_way: false });
});

it("a message of before the drop that arrives late changes nothing", async () => {
  const { caller, entities, before } = await tenantWith(1, 3);
  const entity = entities[0] as string;
  const lost = await loseQueues(caller, entity);
  await ledgerOf(env, caller.tenantId, entity).replay();
  await until(
    async () => lost.length,
    (length) => length === 3,
  );
  await evictDurableObject(ledgerOf(env, caller.tenantId, entity));
  const id = await rebuild(caller, "crossing");
  await deliver("projections", lost);
  await reaches(caller, id, "complete");
  await deliver("projections", lost);
  expect(await projected(caller.tenantId)).toEqual(before);
});
