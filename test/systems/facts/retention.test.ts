import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { atomically, query, sql } from "millrace";
import { keeperOf } from "millrace/worker";
import { beforeEach, expect, it } from "vitest";
import type { Slice } from "../../../packages/millrace/src/keeper/sweep.ts";
import type { RecordedFact, StatedFact } from "../../../src/messages/fact.ts";
import { appendFacts, ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import { factRow } from "../../../src/systems/facts/projection.ts";
import { factRetention } from "../../../src/systems/facts/retention.ts";
import { retention } from "../../../src/systems/retention.ts";
import { callerWith, type Json, reaches, until } from "../../api/client.ts";
import { completed } from "../batches/batch.ts";
import { loseQueues } from "./facts.ts";
import { watched } from "./watched.ts";

const DAY_MS = 86_400_000;
const KEEP_MS = 400 * DAY_MS;

/** The owner of a test's facts. It comes after all others in the projection, so that a scan that starts before it meets only its rows. */
let from = { tenant_id: "", trace_id: "a".repeat(32), correlation_id: "c", causation_id: "test" };

let entities = 0;
const fresh = () => `account/${++entities}-${crypto.randomUUID().slice(0, 8)}`;

beforeEach(async () => {
  const last = await env.DB.prepare("SELECT max(tenant_id) AS last FROM facts WHERE tenant_id >= 'z'").first<string>("last");
  from = { ...from, tenant_id: `${last ?? ""}z` };
});

/** The position at which the rows of a test's tenant start. */
const beginning = () => JSON.stringify([from.tenant_id, "", 0]);

const stated = (entity: string, n: number): StatedFact => ({
  fact_id: `f${n}`,
  entity,
  type: "charge",
  occurred_at: "2020-01-01T00:00:00.000Z",
  payload: { account: "a1", amount_cents: n },
});

/** A ledger with facts that its consumers have, projected; the first `old` of them were recorded 401 days ago. */
async function ledgerWith(entity: string, facts: number, old: number, confirmed = facts) {
  const ledger = ledgerOf(env, from.tenant_id, entity);
  // The ledger reports its consumers' confirmations itself.
  await loseQueues({ tenantId: from.tenant_id }, entity);
  const sequences = Array.from({ length: facts }, (_, index) => index + 1);
  const told = sequences.map((sequence) => stated(entity, sequence));
  await appendFacts(env, from, told);
  await ledger.confirm("projections", sequences, 0);
  await ledger.confirm("fact-processing", sequences.slice(0, confirmed), 0);
  const at = Date.now() - KEEP_MS - DAY_MS;
  await runInDurableObject(ledger, (_, { storage }) => {
    storage.sql.exec("UPDATE facts SET recorded_at = ? WHERE sequence <= ?", at, old);
  });
  await project(entity);
  await atomically(env.DB, [
    sql`UPDATE facts SET recorded_at = ${at} WHERE tenant_id = ${from.tenant_id} AND entity = ${entity} AND sequence <= ${old}`,
  ]);
  return ledger;
}

/** Writes all facts of a ledger into the projection, as a rebuild does. */
async function project(entity: string): Promise<void> {
  const facts = await kept(entity);
  await atomically(
    env.DB,
    facts.map((payload) => factRow({ payload, envelope: payload })),
  );
}

const kept = async (entity: string) => (await ledgerOf(env, from.tenant_id, entity).read(0, 10_000)) as unknown as RecordedFact[];

const projected = async (entity: string) =>
  (
    await query<{ sequence: number }>(
      env.DB,
      sql`SELECT sequence FROM facts WHERE tenant_id = ${from.tenant_id} AND entity = ${entity} ORDER BY sequence`,
    )
  ).map(({ sequence }) => sequence);

const countRows = async () =>
  (await query<{ n: number }>(env.DB, sql`SELECT count(*) AS n FROM facts WHERE tenant_id = ${from.tenant_id}`))[0]?.n ?? 0;

/** One scan of the projection, from a test's tenant on. Returns the number of slices. */
async function pass(rule = retention.find(({ name }) => name === "facts"), bindings: Env = env): Promise<number> {
  let place: string | null = beginning();
  for (let slices = 1; slices < 500; slices++) {
    const slice: number | Slice | undefined = await rule?.prune(bindings, KEEP_MS, place);
    if (typeof slice !== "object") throw new Error("The rule scans: it returns its position.");
    place = slice.next;
    if (place === null) return slices;
  }
  throw new Error("The scan never ended.");
}

it("old facts leave their ledger and the projection, recent facts are kept, and a repeated old fact is a duplicate", async () => {
  const entity = fresh();
  await ledgerWith(entity, 5, 3);
  await pass();
  expect(await projected(entity)).toEqual([4, 5]);
  expect((await kept(entity)).map(({ sequence }) => sequence)).toEqual([4, 5]);
  expect(await appendFacts(env, from, [stated(entity, 1), stated(entity, 6)])).toEqual([
    { fact_id: "f1", sequence: 1, outcome: "duplicate" },
    { fact_id: "f6", sequence: 6, outcome: "appended" },
  ]);
});

it("the app's keeper has the retention rule of facts", async () => {
  const entity = fresh();
  await ledgerWith(entity, 3, 2);
  await runInDurableObject(keeperOf(env), async (_, { storage }) => {
    const turns = await storage.get<object>("retention");
    await storage.put("retention", { ...turns, facts: { dueAt: -1, from: beginning() } });
  });
  await keeperOf(env).round();
  expect(await projected(entity)).toEqual([3]);
});

it("a ledger that has only old facts keeps them, and continues its numbers after them", async () => {
  const entity = fresh();
  const ledger = await ledgerWith(entity, 3, 3);
  await pass();
  expect(await projected(entity)).toEqual([]);
  expect(await ledger.state()).toMatchObject({ last: 3, kept: 0 });
  expect(await appendFacts(env, from, [stated(entity, 4)])).toEqual([{ fact_id: "f4", sequence: 4, outcome: "appended" }]);
});

it("a retention scan that dies between ledger and projection is finished by the next, and a rebuild in between restores nothing", async () => {
  const entity = fresh();
  const ledger = await ledgerWith(entity, 5, 3);
  const dying = factRetention((...of) => {
    const real = ledgerOf(...of);
    return {
      prune: (before, limit) => real.prune(before, limit),
      state: () => Promise.reject(new Error("Died.")),
    };
  });
  await pass(dying);
  expect((await ledger.state()).kept).toBe(2);
  expect(await projected(entity)).toEqual([1, 2, 3, 4, 5]);
  await project(entity);
  await pass();
  expect(await projected(entity)).toEqual([4, 5]);
  await project(entity);
  expect(await projected(entity)).toEqual([4, 5]);
});

it("a ledger that cannot be pruned keeps its rows, and delays no other ledger", async () => {
  const [bad, good] = [`account/0-${crypto.randomUUID()}`, fresh()];
  await ledgerWith(bad, 2, 2);
  await ledgerWith(good, 2, 2);
  const breaking = factRetention((bindings, tenantId, entity) => {
    const real = ledgerOf(bindings, tenantId, entity);
    if (entity !== bad) return real;
    return { prune: () => Promise.reject(new Error("SQLITE_TOOBIG")), state: () => real.state() };
  });
  await pass(breaking);
  expect(await projected(bad)).toEqual([1, 2]);
  expect(await projected(good)).toEqual([]);
  await pass();
  expect(await projected(bad)).toEqual([]);
});

it("a fact that a consumer has not confirmed remains in the ledger and the projection, and so does the fact after it", async () => {
  const entity = fresh();
  await ledgerWith(entity, 4, 4, 2);
  await pass();
  expect((await kept(entity)).map(({ sequence }) => sequence)).toEqual([3, 4]);
  expect(await projected(entity)).toEqual([3, 4]);
});

it("a retention scan calls only ledgers that have old facts", async () => {
  const [old, young] = [fresh(), fresh()];
  await ledgerWith(old, 2, 1);
  await ledgerWith(young, 2, 0);
  const asked: string[] = [];
  const asking = factRetention((own, tenantId, entity) => {
    asked.push(entity);
    return ledgerOf(own, tenantId, entity);
  });
  await pass(asking);
  expect(asked).toContain(old);
  expect(asked).not.toContain(young);
  expect(await projected(young)).toEqual([1, 2]);
});

it("a retention scan processes many ledgers and many facts in slices", async () => {
  const many = Array.from({ length: 30 }, fresh);
  await Promise.all(many.map((entity) => ledgerWith(entity, 1, 1)));
  // After the others, at any place: the number of slices depends on the rows before it.
  const large = fresh().replace("account/", "account/z");
  const ledger = await ledgerWith(large, 2500, 2400);
  expect(await pass()).toBeGreaterThanOrEqual(4);
  for (const entity of many) expect(await projected(entity)).toEqual([]);
  expect(await projected(large)).toHaveLength(100);
  expect(await ledger.state()).toMatchObject({ last: 2500, kept: 100 });
});

it("a retention scan follows the primary key, reads each row once, and deletes rows by their key", async () => {
  const [old, partly, young] = [fresh(), fresh(), fresh()];
  await Promise.all([ledgerWith(old, 30, 30), ledgerWith(partly, 40, 10), ledgerWith(young, 50, 0)]);
  await Promise.all(Array.from({ length: 30 }, () => ledgerWith(fresh(), 1, 0)));
  const rows = await countRows();
  const { db, ran } = watched();
  // More ledgers with recent facts than one slice reads: the scan passes all of them.
  expect(await pass(undefined, { ...env, DB: db })).toBe(1);
  const [walk, remove, ...others] = ran;
  expect(others).toEqual([]);
  expect(walk).toMatchObject({ plan: ["SEARCH facts USING PRIMARY KEY ((tenant_id,entity,sequence)>(?,?,?))"], read: rows });
  expect(remove?.plan).toContain("SEARCH f USING PRIMARY KEY (tenant_id=? AND entity=? AND sequence>? AND sequence<?)");
  expect(remove?.plan.join()).not.toMatch(/SCAN (facts|f)\b/);
  // Each of the forty deleted rows is found, and then deleted, in the table and its indexes.
  expect(remove?.read).toBeLessThan(40 * 6);
  expect(await projected(old)).toEqual([]);
  expect(await projected(partly)).toHaveLength(30);
  expect(await projected(young)).toHaveLength(50);
});

it("a retention scan reads at most one slice at once, and continues after it", async () => {
  await ledgerWith(fresh(), 2300, 0);
  const { db, ran } = watched();
  const slices = await pass(undefined, { ...env, DB: db });
  expect(ran).toHaveLength(slices);
  // A slice of a thousand rows, and the next slice, at which the database stops.
  expect(Math.max(...ran.map(({ read }) => read))).toBe(1001);
  expect(ran.reduce((sum, { read }) => sum + read, 0)).toBe((await countRows()) + slices - 1);
});

it("pruned facts of a ledger are in the archive unchanged, page by page, for its own tenant only", async () => {
  const caller = await callerWith();
  from = { ...from, tenant_id: caller.tenantId };
  const entity = fresh();
  const ledger = await ledgerWith(entity, 30, 25);
  const before = (await kept(entity)).slice(0, 25);
  // The archive has three files.
  for (const limit of [10, 10, 5]) expect(await ledger.prune(Date.now() - KEEP_MS, limit)).toBe(limit);
  const path = `/v1/ledgers/${encodeURIComponent(entity)}/archive`;
  const read: Json[] = [];
  let pages = 0;
  for (let after: number | null = 0; after !== null && pages < 20; pages++) {
    const { status, body } = await caller.get(`${path}?limit=7&after=${after}`);
    expect(status).toBe(200);
    read.push(...body.items);
    after = body.next_after;
  }
  expect(pages).toBe(5);
  expect(read).toEqual(before.map(({ tenant_id: _, ...fact }) => ({ ...fact, subtype: null })));
  expect((await caller.get(`${path}?after=25`)).body).toEqual({ entity, items: [], next_after: null });
  expect((await (await callerWith()).get(path)).body.code).toBe("ledger_not_found");
});

it("a ledger deletes nothing that the archive lacks: the facts remain when the bucket fails or a replay starts", async () => {
  const entity = fresh();
  const ledger = await ledgerWith(entity, 5, 5);
  const withBucket = (put: (bucket: R2Bucket, ...of: Parameters<R2Bucket["put"]>) => Promise<unknown>) =>
    runInDurableObject(ledger, (instance) => {
      const own = instance as unknown as { env: Env };
      const bucket = env.PAYLOADS;
      own.env = { ...own.env, PAYLOADS: { put: (...of: Parameters<R2Bucket["put"]>) => put(bucket, ...of) } as never };
    });
  await withBucket(() => Promise.reject(new Error("We encountered an internal error.")));
  await pass();
  expect((await kept(entity)).length).toBe(5);
  expect(await projected(entity)).toEqual([1, 2, 3, 4, 5]);
  await withBucket(async (bucket, ...of) => {
    await ledger.replay("fact-processing");
    return bucket.put(...of);
  });
  await pass();
  expect((await kept(entity)).length).toBe(5);
  await evictDurableObject(ledger);
});

it("an erased person is also removed from archives, and their amounts remain", async () => {
  const caller = await callerWith();
  from = { ...from, tenant_id: caller.tenantId };
  const [entity, person] = [fresh(), `cust-${crypto.randomUUID()}`];
  await completed(caller, `contact_id,email,name\n${person},${person}@example.com,Zelda\n`);
  const ledger = ledgerOf(env, from.tenant_id, entity);
  const payload = { account: "a1", value_cents: 700, contact: person };
  await appendFacts(env, from, [{ fact_id: "f1", entity, type: "outcome", occurred_at: "2020-01-01T00:00:00.000Z", payload }]);
  await until(
    () => ledger.state(),
    ({ unconfirmed }) => unconfirmed.projections + unconfirmed["fact-processing"] === 0,
  );
  expect(await ledger.prune(Date.now() + 1000, 10)).toBe(1);
  const archive = async () => (await caller.get(`/v1/ledgers/${encodeURIComponent(entity)}/archive`)).body.items;
  expect((await archive())[0].payload.contact).toBe(person);
  const { body } = await caller.post("/v1/contacts/forget", { contact_id: person, reason: "asked" });
  await reaches(caller, body.instance_id, "complete");
  const [fact] = await archive();
  expect(fact).toMatchObject({ fact_id: "f1", sequence: 1, payload: { value_cents: 700 } });
  expect(JSON.stringify(fact)).not.toContain(person);
});
