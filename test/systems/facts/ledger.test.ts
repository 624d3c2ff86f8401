import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, it } from "vitest";
import type { Feed } from "../../../src/systems/facts/ledger/feeds.ts";
import { appendFacts, ledgerOf } from "../../../src/systems/facts/ledger/ledgers.ts";
import { atMost, type Range, size, without } from "../../../src/systems/facts/ledger/ranges.ts";
import { fresh } from "../../api/client.ts";
import { outcome, sent } from "./facts.ts";

const from = { tenant_id: "acme", trace_id: "a".repeat(32), correlation_id: "c", causation_id: "test" };
/** The maximum size of a value in an object's storage on the platform; the local maximum is larger. */
const MAX_VALUE_BYTES = 2_000_000;

/** A ledger with this number of facts after its first, as if it had accepted them; every tenth fact causes a derived fact. */
async function longLedger(facts: number) {
  const entity = fresh("account/");
  await appendFacts(env, from, [sent(entity)]);
  const ledger = ledgerOf(env, from.tenant_id, entity);
  await runInDurableObject(ledger, async (_, { storage }) => {
    await storage.deleteAlarm();
    storage.sql.exec(
      `INSERT INTO facts (sequence, fact_id, type, fingerprint, body, recorded_at)
       WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
       SELECT i, 'f' || i, iif(i % 10 = 0, 'outcome', 'webhook_sent'), 'p', '{}', 1 FROM n`,
      facts,
    );
  });
  const storage = <T>(look: (state: DurableObjectState) => T) => runInDurableObject(ledger, (_, state) => look(state));
  const bytes = () =>
    storage(({ storage }) => storage.sql.exec<{ bytes: number }>("SELECT max(length(missing)) AS bytes FROM feeds").one().bytes);
  return { ledger, bytes, quiet: () => storage(({ storage }) => storage.deleteAlarm()) };
}

it("a ledger of 300,000 facts that is replayed and confirmed from its newest fact stores the unconfirmed part as one range", async () => {
  const { ledger, bytes, quiet } = await longLedger(300_000);
  await ledger.replay("projections");
  await quiet();
  await ledger.confirm("projections", [300_000], 1);
  expect((await ledger.state()).unconfirmed.projections).toBe(299_999);
  expect(await bytes()).toBeLessThan(100);
  expect(await ledger.prune(2, 10)).toBe(0);
});

it("a ledger with every other fact confirmed stores its unconfirmed positions in one row, loses none of them, and completes", async () => {
  const { ledger, bytes, quiet } = await longLedger(20_000);
  const every = (step: number, begin: number, end: number) =>
    Array.from({ length: Math.floor((end - begin) / step) + 1 }, (_, n) => begin + n * step);
  await ledger.confirm("projections", every(2, 2, 20_000), 0);
  expect(await bytes()).toBeLessThan(MAX_VALUE_BYTES / 20);
  expect((await ledger.state()).unconfirmed.projections).toBeGreaterThanOrEqual(10_000);
  for (let at = 1; at <= 20_000; at += 500) await ledger.confirm("projections", every(1, at, at + 499), 0);
  expect((await ledger.state()).unconfirmed.projections).toBe(0);
  await quiet();
});

it("a feed of a ledger that carries only some facts counts only those, and is complete when they are confirmed", async () => {
  const { ledger, bytes, quiet } = await longLedger(1000);
  expect((await ledger.state()).unconfirmed).toEqual({ projections: 1000, "fact-processing": 100 });
  await ledger.confirm("fact-processing", [500, 1000], 0);
  expect((await ledger.state()).unconfirmed["fact-processing"]).toBe(98);
  const rest = Array.from({ length: 100 }, (_, n) => (n + 1) * 10);
  await ledger.confirm("fact-processing", rest, 0);
  expect((await ledger.state()).unconfirmed["fact-processing"]).toBe(0);
  expect(await bytes()).toBe(2);
  await quiet();
});

it("a ledger ignores a confirmation of an earlier or a later epoch than its own", async () => {
  const entity = fresh("account/");
  await appendFacts(env, from, [outcome(entity)]);
  const ledger = ledgerOf(env, from.tenant_id, entity);
  await ledger.replay("projections");
  const unconfirmed = async (feed: Feed) => (await ledger.state()).unconfirmed[feed];
  await ledger.confirm("projections", [1], 0);
  await ledger.confirm("projections", [1], 2);
  expect(await unconfirmed("projections")).toBe(1);
  await ledger.confirm("projections", [1], 1);
  expect(await unconfirmed("projections")).toBe(0);
});

it("ranges of unconfirmed positions that were joined to reduce their number still contain every unconfirmed position", () => {
  const places = fc.uniqueArray(fc.integer({ min: 1, max: 60 }));
  fc.assert(
    fc.property(places, places, fc.integer({ min: 1, max: 8 }), (first, second, most) => {
      const sorted = (list: number[]) => list.toSorted((a, b) => a - b);
      const spread = (ranges: readonly Range[]) => ranges.flatMap(([a, b]) => Array.from({ length: b - a + 1 }, (_, n) => a + n));
      const once = without([[1, 60]], sorted(first));
      const twice = without(once, sorted(second));
      const missing = Array.from({ length: 60 }, (_, n) => n + 1).filter((place) => !first.includes(place) && !second.includes(place));
      expect(spread(twice)).toEqual(missing);
      expect(size(twice)).toBe(missing.length);
      const few = atMost(most, twice);
      expect(few.length).toBe(Math.min(most, twice.length));
      expect(spread(few)).toEqual(expect.arrayContaining(missing));
      expect(spread(few)).toEqual(sorted([...new Set(spread(few))]));
    }),
  );
});
