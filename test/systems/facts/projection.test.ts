import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, it } from "vitest";
import { FactRecorded } from "../../../src/messages/facts.ts";
import { sourceIn } from "../../../src/systems/facts/ledger/feeds.ts";
import { callerWith, fresh, type Json } from "../../api/client.ts";
import { howMany } from "../../full-size.ts";
import { deliver, ledger, outcome, projected, projectedUntil, sent, state } from "./facts.ts";

/** The message that a ledger sends about a fact, for another tenant's projection, so that each order can be tested on empty tables. */
function messageOf(tenantId: string, fact: Json): Json {
  const draft = FactRecorded.from({ ...fact, tenant_id: tenantId, subtype: fact.subtype ?? undefined });
  return {
    schema_version: 1,
    message_type: draft.type,
    kind: "event",
    source: sourceIn(0),
    outbox: "sender",
    correlation_id: fact.correlation_id,
    causation_id: fact.causation_id,
    idempotency_key: `${fact.entity}/${fact.fact_id}`,
    subject: fact.entity,
    tenant_id: tenantId,
    created_at: fact.recorded_at,
    sequence: fact.sequence,
    traceparent: `00-${fact.trace_id}-b7ad6b7169203331-01`,
    payload_inline: draft.payload,
  };
}

/** Facts of a few ledgers, in the form in which the ledgers hold them. */
async function recordedFacts(): Promise<Json[]> {
  const caller = await callerWith();
  const entities = [fresh("account/"), fresh("account/"), fresh("partner/")];
  await state(
    caller,
    Array.from({ length: 40 }, (_, index) => (index % 3 ? sent : outcome)(entities[index % 3] as string)),
  );
  return (await Promise.all(entities.map((entity) => ledger(caller, entity)))).flatMap(({ items }) => items);
}

const withoutTenant = (rows: Json[]) => rows.map(({ tenant_id: _, ...row }) => row);

it("every message delivered twice, in many shuffled orders, ends in the same rows of the projection", async () => {
  const facts = await recordedFacts();
  const orders = fc.sample(fc.shuffledSubarray([...facts, ...facts], { minLength: 80, maxLength: 80 }), {
    seed: 5,
    numRuns: howMany(12, 50),
  });
  const results: Json[] = [];
  for (const order of orders) {
    const tenantId = fresh("tenant");
    for (let at = 0; at < order.length; at += 23) {
      const bodies = order.slice(at, at + 23).map((fact) => messageOf(tenantId, fact));
      expect(await deliver("projections", bodies)).toEqual({ acked: bodies.length, retried: 0 });
    }
    results.push(withoutTenant(await projected(tenantId)));
  }
  expect(results[0]).toHaveLength(40);
  for (const rows of results) expect(rows).toEqual(results[0]);
});

it("a late fact changes no existing row of the projection", async () => {
  const caller = await callerWith();
  const entity = fresh("account/");
  await state(caller, [sent(entity), sent(entity)]);
  const before = await projectedUntil(caller.tenantId, 2);
  const written = await env.DB.prepare("SELECT max(projected_at) AS at FROM facts WHERE tenant_id = ?1").bind(caller.tenantId).first();
  const [late] = (await ledger(caller, entity)).items;
  await deliver("projections", [messageOf(caller.tenantId, late)]);
  expect(await projected(caller.tenantId)).toEqual(before);
  expect(await env.DB.prepare("SELECT max(projected_at) AS at FROM facts WHERE tenant_id = ?1").bind(caller.tenantId).first()).toEqual(
    written,
  );
});

it("a delivered batch of a hundred facts is one round trip to D1, and a known ledger is not written again", async () => {
  const tenantId = fresh("tenant");
  const facts = await recordedFacts();
  const hundred = [...facts, ...facts, ...facts].slice(0, 100);
  const batches: number[][] = [];
  const counted = new Proxy(env.DB, {
    get(db, name) {
      if (name === "batch")
        return async (statements: D1PreparedStatement[]) => {
          const results = await db.batch(statements);
          batches.push(results.map(({ meta }) => meta.rows_written));
          return results;
        };
      const value = Reflect.get(db, name, db) as unknown;
      return typeof value === "function" ? value.bind(db) : value;
    },
  });
  const bindings = { ...env, DB: counted } as Env;
  const bodies = hundred.map((fact) => messageOf(tenantId, fact));
  await deliver("projections", bodies, bindings);
  expect(await projected(tenantId)).toHaveLength(40);
  // Forty rows with an index entry each, and three ledgers; none of this was in the engine's outbox.
  expect(batches).toEqual([[80, 3]]);
  await deliver("projections", bodies, bindings);
  expect(batches).toEqual([
    [80, 3],
    [0, 0],
  ]);
});

it("each list of facts is read by an index", async () => {
  const plan = async (where: string) => {
    const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN SELECT * FROM facts WHERE tenant_id = 't' ${where}`).all<{
      detail: string;
    }>();
    return results.map(({ detail }) => detail).join(" · ");
  };
  const page = "AND (recorded_at, entity, sequence) < (9, 'e', 1) ORDER BY recorded_at DESC, entity DESC, sequence DESC LIMIT 51";
  expect(await plan(page)).toBe("SEARCH facts USING INDEX facts_by_time (tenant_id=? AND (recorded_at,entity,sequence)<(?,?,?))");
  expect(await plan("AND entity = 'e' AND sequence < 9 ORDER BY sequence DESC LIMIT 51")).toBe(
    "SEARCH facts USING PRIMARY KEY (tenant_id=? AND entity=? AND sequence<?)",
  );
});

it("the lag of the newest rows of the projection is the time from the ledger's clock to the database's", async () => {
  const caller = await callerWith();
  const entity = fresh("account/");
  const facts = Array.from({ length: 20 }, () => sent(entity));
  await state(caller, facts);
  await projectedUntil(caller.tenantId, 20);
  const [measured] = (await caller.get("/v1/projections")).body.items;
  expect(measured).toMatchObject({ name: "facts", rows: 20, ledgers: 1, more: false, rebuild: null, lag_ms: { rows: 20 } });
  expect(measured.lag_ms.max).toBeLessThan(10_000);

  await env.DB.prepare("UPDATE facts SET projected_at = recorded_at + 100 * sequence WHERE tenant_id = ?1").bind(caller.tenantId).run();
  await env.DB.prepare("UPDATE facts SET recorded_at = recorded_at - 3700000 WHERE tenant_id = ?1 AND sequence > 18")
    .bind(caller.tenantId)
    .run();
  const [aged] = (await caller.get("/v1/projections")).body.items;
  expect(aged.lag_ms).toEqual({ rows: 18, p50: 900, p95: 1800, max: 1800 });
  expect(Date.parse(aged.newest_projected_at)).toBeGreaterThan(Date.now() - 60_000);
});

it("for any order and delivery of published facts, the projection ends equal to the ledgers", {
  timeout: 120_000,
}, async () => {
  const name = fc.string({ minLength: 1, maxLength: 12, unit: "binary" }).filter((text) => /^\P{Cc}*$/u.test(text) && text.isWellFormed());
  const fact = fc.record({
    fact_id: fc.constantFrom("a", "b", "c", "d", "é'\"%/\\"),
    entity: fc.constantFrom("x", "y/z", "ü ?#%2F"),
    subtype: fc.option(name, { nil: undefined }),
    occurred_at: fc
      .date({ noInvalidDate: true, min: new Date(0), max: new Date("9999-12-31T23:59:59Z") })
      .map((date) => date.toISOString()),
    payload: fc.record({ account: name, value_cents: fc.nat() }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(fact, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 4 }), async (requests) => {
      const caller = await callerWith();
      const first = new Map<string, Json>();
      for (const request of requests) {
        const results = await state(
          caller,
          request.map((one) => ({ ...one, type: "outcome" })),
        );
        for (const [index, stated] of request.entries()) {
          const place = `${stated.entity} ${stated.fact_id}`;
          const known = first.get(place);
          const same = known && JSON.stringify(known) === JSON.stringify(stated);
          expect(results[index].status).toBe(known === undefined ? 201 : same ? 200 : 422);
          if (known === undefined) first.set(place, stated);
        }
      }
      const entities = [...new Set([...first.values()].map(({ entity }) => entity))];
      const held = (await Promise.all(entities.map((entity) => ledger(caller, entity)))).flatMap(({ items }) => items);
      expect(held).toHaveLength(first.size);
      // Delivered without waiting for the queue, and concurrently with it: the same messages in reverse order.
      await deliver(
        "projections",
        held.toReversed().map((one) => messageOf(caller.tenantId, one)),
      );
      const rows = await projected(caller.tenantId);
      const key = ({ entity, sequence }: Json) => `${entity} ${sequence}`;
      const expected = held.map(({ recorded_at, occurred_at, payload, traceparent: _, ...one }) => ({
        ...one,
        tenant_id: caller.tenantId,
        recorded_at: Date.parse(recorded_at),
        occurred_at: Date.parse(occurred_at),
        payload: JSON.stringify(payload),
      }));
      expect(new Map(rows.map((row) => [key(row), row]))).toEqual(new Map(expected.map((row) => [key(row), row])));
    }),
    { seed: 7, numRuns: howMany(6, 25) },
  );
});

it("T01 a fact that contains another tenant than its message is a dead letter of the message's tenant, and writes no row", async () => {
  const [caller, other] = [await callerWith(), await callerWith()];
  const entity = fresh("account/");
  await state(caller, [outcome(entity)]);
  await projectedUntil(caller.tenantId, 1);
  const [fact] = (await ledger(caller, entity)).items;
  const foreign = messageOf(caller.tenantId, { ...fact, fact_id: fresh("fact"), sequence: 101 });
  const own = messageOf(other.tenantId, fact);
  expect(await deliver("projections", [{ ...foreign, tenant_id: other.tenantId }, own])).toEqual({ acked: 2, retried: 0 });
  expect(await projected(caller.tenantId)).toHaveLength(1);
  expect(await projected(other.tenantId)).toMatchObject([{ entity, sequence: 1 }]);
  expect((await other.get("/v1/dead-letters")).body.items).toMatchObject([{ message_type: "fact.recorded", reason: "invalid_payload" }]);
  expect((await caller.get("/v1/dead-letters")).body.items).toEqual([]);
});

it("a fact that arrives by another queue than its own is a dead letter with the name of its queue", async () => {
  const caller = await callerWith();
  const entity = fresh("account/");
  await state(caller, [outcome(entity)]);
  const [fact] = (await ledger(caller, entity)).items;
  const other = messageOf(fresh("tenant"), fact);
  expect(await deliver("fact-processing", [other])).toEqual({ acked: 1, retried: 0 });
  const { results } = await env.DB.prepare("SELECT reason, error FROM millrace_dead_letters WHERE tenant_id = ?1")
    .bind(other.tenant_id)
    .all();
  expect(results).toEqual([{ reason: "unknown_message_type", error: expect.stringContaining("the queue projections") }]);
  expect(await projected(other.tenant_id)).toEqual([]);
});
