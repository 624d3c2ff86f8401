import { introspectWorkflowInstance, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { ids } from "millrace";
import { expect, it } from "vitest";
import { restoreLedgers } from "../../../src/steps/restore-rows.ts";
import { ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import { type Caller, callerWith, expectProblem, fresh, type Json, reaches, until } from "../../api/client.ts";
import { ledger, projected, projectedUntil, rebuildOutput, sent, state } from "./facts.ts";

/** The instance of a tenant's rebuild with this request. */
function rebuildOf(caller: Caller, request: string): string {
  return ids.instance(caller.tenantId, "rebuild-projection", `facts/${request}`);
}

async function rebuild(caller: Caller, request: string): Promise<string> {
  const { status, body, headers } = await caller.post("/v1/projections/facts/rebuild", { request });
  expect(status).toBe(202);
  expect(headers.get("location")).toBe(`/v1/instances/${body.instance_id}`);
  expect(body.instance_id).toBe(rebuildOf(caller, request));
  return body.instance_id;
}

/** The rows of a tenant with all their columns. */
async function rowsOf(caller: Caller): Promise<Json[]> {
  const found = await env.DB.prepare("SELECT * FROM facts WHERE tenant_id = ?1 ORDER BY entity, sequence, fact_id")
    .bind(caller.tenantId)
    .all();
  return found.results;
}

/** A tenant with facts of this number of ledgers, all of them projected. */
async function tenantWith(ledgers: number, factsEach: number) {
  const caller = await callerWith();
  const entities = Array.from({ length: ledgers }, () => fresh("account/"));
  const facts = entities.flatMap((entity) => Array.from({ length: factsEach }, () => sent(entity)));
  for (let at = 0; at < facts.length; at += 100) await state(caller, facts.slice(at, at + 100));
  const before = await projectedUntil(caller.tenantId, facts.length);
  expect(before).toHaveLength(facts.length);
  return { caller, entities, before };
}

it("a rebuild of the projection repairs a tenant's rows in place: missing, wrong and surplus rows; a repeat is the same rebuild", async () => {
  const { caller, entities, before } = await tenantWith(3, 250);
  const neighbour = await tenantWith(1, 3);
  const untouched = await rowsOf(neighbour.caller);
  const [missing, , overfull] = entities as [string, string, string];
  const kept = await rowsOf(caller);
  // Manual damage to the projection.
  const copy =
    "INSERT INTO facts SELECT tenant_id, entity, ?3, ?4, recorded_at, body, projected_at FROM facts WHERE tenant_id = ?1 AND entity = ?2 AND sequence = 8";
  await env.DB.batch([
    env.DB.prepare(
      "UPDATE facts SET body = json_set(body, '$.payload', json('{}'), '$.type', 'charge') WHERE tenant_id = ?1 AND sequence = 7",
    ).bind(caller.tenantId),
    env.DB.prepare("DELETE FROM facts WHERE tenant_id = ?1 AND entity = ?2 AND sequence > 100").bind(caller.tenantId, missing),
    ...[9, 250, 251, 9000].map((place) => env.DB.prepare(copy).bind(caller.tenantId, overfull, place, "nobody's")),
  ]);
  const id = await rebuild(caller, "careless hand");
  const late = sent(entities[1] as string);
  await state(caller, [late]);
  await reaches(caller, id, "complete");
  expect(await rebuildOutput(id)).toMatchObject({ ledgers: 3, removed: 4 });
  // Includes the fact that arrived meanwhile, if its ledger was read before its message arrived.
  expect([153, 154]).toContain((await rebuildOutput(id)).restored);
  const after = await projectedUntil(caller.tenantId, 751);
  expect(after.filter(({ fact_id }) => fact_id !== late.fact_id)).toEqual(before);
  expect(after).toHaveLength(751);
  expect(await rowsOf(neighbour.caller)).toEqual(untouched);
  // Correct rows were not written again.
  const right = (rows: Json[]) => rows.filter(({ entity, sequence }) => entity === overfull && sequence <= 250);
  expect(right(await rowsOf(caller))).toEqual(right(kept));

  const again = await caller.post("/v1/projections/facts/rebuild", { request: "careless hand" });
  expect(again.body).toMatchObject({ instance_id: id, replayed: true });
  const [standing] = (await caller.get("/v1/projections")).body.items;
  expect(standing).toMatchObject({ rows: 751, ledgers: 3, rebuild: { instance_id: id, status: "complete", under_way: false } });
  // Rows restored by the rebuild do not count toward the lag of the projection.
  expect(standing.lag_ms?.rows ?? 0).toBeLessThanOrEqual(1);
});

it("a rebuild is the command projection.rebuild, with its request as its key", async () => {
  const { caller, before } = await tenantWith(1, 2);
  const payload = { projection: "facts", request: "by command" };
  const { body } = await caller.post("/v1/commands", { type: "projection.rebuild", payload });
  expect(body.instance_id).toBe(rebuildOf(caller, "by command"));
  await reaches(caller, body.instance_id, "complete");
  expect(await projected(caller.tenantId)).toEqual(before);
  expectProblem(await caller.post("/v1/projections/facts/rebuild", { request: "" }), 422, "invalid_payload");
});

it("a rebuild continues after a ledger with a name of the maximum length", async () => {
  const caller = await callerWith();
  const long = Array.from({ length: 100 }, (_, index) => sent(`order/${String(index).padStart(4, "0")}${"x".repeat(190)}`));
  await state(caller, long);
  await state(caller, [sent("order/z")]);
  await projectedUntil(caller.tenantId, 101);
  const id = await rebuild(caller, "long names");
  await reaches(caller, id, "complete");
  expect(await rebuildOutput(id)).toEqual({ ledgers: 101, facts: 101, restored: 0, removed: 0 });
});

it("a rebuild requires the scope operate, also as a command", async () => {
  const caller = await callerWith(["enqueue", "read"]);
  expectProblem(await caller.post("/v1/projections/facts/rebuild", { request: "r" }), 403, "forbidden");
  const command = { type: "projection.rebuild", payload: { projection: "facts", request: "r" } };
  const { detail } = expectProblem(await caller.post("/v1/commands", command), 403, "forbidden");
  expect(detail).toContain("POST /v1/projections/facts/rebuild");
});

it("a rebuild of a tenant without facts ends at once", async () => {
  const caller = await callerWith();
  const id = await rebuild(caller, "nothing");
  await reaches(caller, id, "complete");
  expect(await rebuildOutput(id)).toEqual({ ledgers: 0, facts: 0, restored: 0, removed: 0 });
});

it("a rebuild that is restarted halfway ends in the same rows", async () => {
  const { caller, before } = await tenantWith(150, 1);
  await env.DB.prepare("DELETE FROM facts WHERE tenant_id = ?1").bind(caller.tenantId).run();
  const id = rebuildOf(caller, "restarted");
  await using instance = await introspectWorkflowInstance(env.REBUILD_PROJECTION, id);
  await rebuild(caller, "restarted");
  await instance.waitForStepResult({ name: "restore rows [start]" });
  const platform = await env.REBUILD_PROJECTION.get(id);
  await platform.restart();
  await reaches(caller, id, "complete");
  expect(await projected(caller.tenantId)).toEqual(before);
  // The restart may interrupt an attempt after its rows and before its record. The repeat finds these rows, and does not count them as
  // restored.
  const { restored, ...output } = await rebuildOutput(id);
  expect(output).toEqual({ ledgers: 150, facts: 150, removed: 0 });
  expect([100, 150]).toContain(restored);
});

it("a rebuild reads a hundred ledgers in each step", async () => {
  const { caller, before } = await tenantWith(230, 1);
  const id = await rebuild(caller, "many");
  await reaches(caller, id, "complete");
  expect(await projected(caller.tenantId)).toEqual(before);
  const { items } = (await caller.get(`/v1/instances/${id}/effects`)).body;
  expect(items.map(({ output }: Json) => output.ledgers)).toEqual([100, 100, 30]);
});

it("a rebuild does not change rows if their ledger has deleted their content", async () => {
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
  expect(await rebuildOutput(id)).toEqual({ ledgers: 1, facts: 2, restored: 0, removed: 0 });
});

it("a rebuild continues within a ledger with more facts than a step reads, and reads each once", async () => {
  const { caller, entities, before } = await tenantWith(2, 1);
  const [large] = entities.toSorted() as [string];
  const ledger = ledgerOf(env, caller.tenantId, large);
  await runInDurableObject(ledger, (_, { storage }) => {
    storage.sql.exec(
      `INSERT INTO facts (sequence, fact_id, type, fingerprint, body, recorded_at)
       WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 5700)
       SELECT i, 'f' || i, type, fingerprint, json_set(body, '$.sequence', i, '$.fact_id', 'f' || i), recorded_at FROM n, facts WHERE sequence = 1`,
    );
    storage.sql.exec("UPDATE feeds SET mark = 5700");
  });
  const id = await rebuild(caller, "large");
  await reaches(caller, id, "complete");
  expect(await rebuildOutput(id)).toEqual({ ledgers: 2, facts: 5701, restored: 5699, removed: 0 });
  expect(await projected(caller.tenantId)).toHaveLength(5699 + before.length);
  const { items } = (await caller.get(`/v1/instances/${id}/effects`)).body;
  expect(items.map(({ output }: Json) => output.facts)).toEqual([5000, 701]);
});

it("a rebuild during retention completes: rows of facts that were just pruned are found by the next retention scan", async () => {
  const { caller, entities, before } = await tenantWith(1, 6);
  const entity = entities[0] as string;
  await until(
    () => ledger(caller, entity),
    ({ unconfirmed }) => unconfirmed.projections === 0,
  );
  await env.DB.prepare("DELETE FROM facts WHERE tenant_id = ?1").bind(caller.tenantId).run();
  // Between the ledger's response and the rows, the ledger prunes facts: the first call asks which ledgers exist, the second writes.
  let calls = 0;
  const DB = {
    prepare: (text: string) => env.DB.prepare(text),
    async batch(statements: D1PreparedStatement[]) {
      if (++calls === 2) expect(await ledgerOf(env, caller.tenantId, entity).prune(Date.now() + 1000, 4)).toBe(4);
      return env.DB.batch(statements);
    },
  };
  const input = { tenantId: caller.tenantId, from: null };
  const done = await restoreLedgers.run({ input, env: { ...env, DB } } as never);
  expect(done).toMatchObject({ ledgers: 1, facts: 6, restored: 6, removed: 0, next: null });
  expect(await projected(caller.tenantId)).toEqual(before);
  const id = await rebuild(caller, "while pruned");
  await reaches(caller, id, "complete");
  expect(await rebuildOutput(id)).toEqual({ ledgers: 1, facts: 2, restored: 0, removed: 0 });
});

it("a rebuild with facts that no longer match their type ends with an error that names the first, and restores the others", async () => {
  const { caller, entities, before } = await tenantWith(2, 3);
  const broken = entities[1] as string;
  await runInDurableObject(ledgerOf(env, caller.tenantId, broken), async (_, { storage }) => {
    storage.sql.exec("UPDATE facts SET body = json_set(body, '$.trace_id', 'short') WHERE sequence = 2");
  });
  await env.DB.prepare("DELETE FROM facts WHERE tenant_id = ?1").bind(caller.tenantId).run();
  const id = await rebuild(caller, "never");
  const { error } = await reaches(caller, id, "errored");
  expect(error).toMatchObject({ code: "not_retryable" });
  expect(error.message).toContain("lacks 1 facts");
  expect(error.message).toContain(`number 2 of ${broken}`);
  expect(await projected(caller.tenantId)).toEqual(before.filter(({ entity, sequence }) => entity !== broken || sequence !== 2));
  expect((await caller.get("/v1/projections")).body.items[0].rebuild).toMatchObject({ status: "errored", under_way: false });
});
