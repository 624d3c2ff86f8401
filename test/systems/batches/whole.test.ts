import { env } from "cloudflare:workers";
import { expect, it, onTestFinished } from "vitest";
import { ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import { type Caller, callerWith, fresh, type Json, reaches, until } from "../../api/client.ts";
import { howMany } from "../../full-size.ts";
import { chances } from "../facts/derived.ts";
import { sent, state } from "../facts/facts.ts";
import { batchIn, completed } from "./batch.ts";

/** To run the full number of exports: MILLRACE_FULL_SIZE=true npx vitest run --project app test/systems/batches/whole.test.ts */
const EXPORTS = howMany(10, 300);
/** Exports requested concurrently. */
const LANES = 5;
const FACTS = 300;
const jsonl = { type: "application/x-ndjson", dataset: "facts" };

const facts = Array.from({ length: FACTS }, (_, index) => ({ ...sent(`order/${index % 7}`), fact_id: `f${index}` }));
const file = facts.map((fact) => JSON.stringify(fact)).join("\n");

/** The number of earlier facts that have a row. */
const counted = (caller: Caller) =>
  env.DB.prepare("SELECT count(*) AS n FROM facts WHERE tenant_id = ?1 AND entity LIKE 'order/%'").bind(caller.tenantId).first<number>("n");

/** Appends facts and rebuilds the projection, repeatedly, until the test is over. */
function busy(caller: Caller): { rebuilds: () => number } {
  let over = false;
  let rebuilds = 0;
  const load = async () => {
    for (let n = 0; !over; n++) {
      await state(caller, [sent(`load/${n % 5}`), sent(`load/new-${n % 100}`)]);
      await scheduler.wait(howMany(20, 500));
    }
  };
  const rebuild = async () => {
    while (!over) {
      const { body } = await caller.post("/v1/projections/facts/rebuild", { request: fresh("r") });
      await reaches(caller, body.instance_id, "complete");
      rebuilds++;
    }
  };
  const all = Promise.all([load(), rebuild()]);
  onTestFinished(async () => {
    over = true;
    await all;
  });
  return { rebuilds: () => rebuilds };
}

async function exported(caller: Caller): Promise<{ batch: Json; rows: Json[] }> {
  const id = fresh("b");
  expect((await caller.post("/v1/batches", { operation: "export", dataset: "facts", batch_id: id, format: "jsonl" })).status).toBe(202);
  const batch = await batchIn(caller, id, "complete");
  const text = String((await caller.get(`/v1/batches/${id}/result`)).body);
  return {
    batch,
    rows: text
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line)),
  };
}

it(
  `each of ${EXPORTS} exports at random moments of rebuilds under load is complete for the moment that it reports`,
  async () => {
    const caller = await callerWith();
    await completed(caller, file, jsonl);
    await until(
      () => counted(caller),
      (n) => n === FACTS,
    );
    const { rebuilds } = busy(caller);
    const chance = chances(4711);
    const wanted = new Set(facts.map(({ fact_id }) => fact_id));
    let last: { batch: Json; rows: Json[] } | undefined;
    const lane = async () => {
      for (let n = 0; n < EXPORTS / LANES; n++) {
        await scheduler.wait(chance() * 60);
        const { batch, rows } = await exported(caller);
        const ours = rows.filter(({ entity }) => entity.startsWith("order/"));
        expect(new Set(ours.map(({ fact_id }) => fact_id))).toEqual(wanted);
        expect(ours).toHaveLength(FACTS);
        last = { batch, rows };
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    // Of each continued ledger, exactly the facts until then.
    for (const entity of ["load/1", "load/2"]) {
      const taken = (await ledgerOf(env, caller.tenantId, entity).read(0, 10_000)) as unknown as Json[];
      const by = taken.filter(({ recorded_at }) => recorded_at <= last?.batch.as_of).map(({ fact_id }) => fact_id);
      expect(last?.rows.filter((row) => row.entity === entity).map(({ fact_id }) => fact_id)).toEqual(by);
      expect(by.length).toBeGreaterThan(0);
    }
    expect(rebuilds()).toBeGreaterThan(0);
  },
  howMany(120_000, 3_600_000),
);

it("lists and reconciliations omit nothing while the projection is rebuilt under load", async () => {
  const caller = await callerWith();
  await completed(caller, file, jsonl);
  await until(
    () => counted(caller),
    (n) => n === FACTS,
  );
  const { rebuilds } = busy(caller);
  for (let n = 0; n < 3 || rebuilds() < 2; n++) {
    const { findings } = await completed(caller, file, { ...jsonl, operation: "reconcile" });
    expect(findings).toMatchObject({ same: FACTS, different: 0, only_there: 0 });
    for (let look = 0; look < 20; look++) {
      expect(await counted(caller)).toBe(FACTS);
      expect((await caller.get("/v1/facts?entity=order%2F3&limit=200")).body.items).toHaveLength(43);
    }
  }
});

it("an export represents one moment: later facts of its ledger are excluded, and a ledger that the projection lacks is included", async () => {
  const caller = await callerWith();
  await completed(caller, file, jsonl);
  await until(
    () => counted(caller),
    (n) => n === FACTS,
  );
  await env.DB.prepare("DELETE FROM facts WHERE tenant_id = ?1 AND entity <> 'order/1'").bind(caller.tenantId).run();
  const { batch, rows } = await exported(caller);
  expect(rows).toHaveLength(FACTS);
  expect(Date.parse(batch.as_of)).toBe(Date.parse(batch.created_at));
  const { body } = await caller.get(`/v1/batches/${(await completed(caller, "contact_id,email\nc1,a@example.com\n")).batch_id}`);
  expect(body.as_of).toBeNull();
});
