import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { counterOf } from "millrace/counters";
import { describe, expect, it } from "vitest";
import type { CounterEnv } from "../../../packages/millrace/src/counters/client.ts";
import { fresh, probeEnv } from "../harness.ts";

const env = probeEnv as unknown as Required<CounterEnv>;
const times = <T>(count: number, act: (n: number) => Promise<T>) => Promise.all(Array.from({ length: count }, (_, n) => act(n)));

/** Counts the calls to the Durable Objects of a counter. */
function counting(shards?: number) {
  const name = fresh("counter");
  const calls = { made: 0, shards: new Set<string>() };
  const getByName = (shard: string) => {
    calls.made++;
    calls.shards.add(shard);
    return env.COUNTER.getByName(shard);
  };
  const counter = counterOf({ COUNTER: { getByName } as unknown as CounterEnv["COUNTER"] }, name, shards === undefined ? {} : { shards });
  return { name, calls, counter, shard: (n: number) => env.COUNTER.getByName(`${name}/${n}`) };
}

describe("a counter", () => {
  it("a counter is the sum of concurrent adds, each by one call to one of 32 shards", async () => {
    const { counter, calls } = counting();
    await times(200, (n) => counter.add(n % 3));
    expect(calls.made).toBe(200);
    expect(calls.shards.size).toBeGreaterThan(20);
    expect(calls.shards.size).toBeLessThanOrEqual(32);
    expect(await counter.read()).toBe(66 * 3 + 1);
    expect(calls.made).toBe(232);
  });

  it("a counter accepts a batch by one call, and counts each key once, also when a later batch repeats it", async () => {
    const { counter, calls } = counting();
    expect(await counter.addAll([1, 2, { n: 3 }])).toBe(3);
    expect(calls.made).toBe(1);
    expect(await counter.addAll([10, 20], { key: "a delivery" })).toBe(2);
    expect(await counter.addAll([10, 20], { key: "a delivery" })).toBe(0);
    const message = (n: number) => ({ n: 100, key: `message ${n}` });
    expect(await counter.addAll([message(1), message(2), message(3), 1_000])).toBe(4);
    expect(await counter.addAll([message(3), message(4)])).toBe(1);
    expect(await counter.add(100, { key: "message 4" })).toBe(false);
    expect(await counter.addAll([])).toBe(0);
    expect(await counter.read()).toBe(6 + 30 + 400 + 1_000);
  });

  it("a counter accepts a batch with a sum above the maximum of one add", async () => {
    const { counter } = counting(1);
    expect(await counter.addAll([1e12, 1e12, 5])).toBe(3);
    expect(await counter.read()).toBe(2e12 + 5);
  });

  it("a counter is exact after any mix of adds, repeats, evictions and kills", async () => {
    const happening = fc.oneof(
      { weight: 4, arbitrary: fc.record({ what: fc.constant("add" as const), n: fc.integer({ min: -5, max: 50 }) }) },
      {
        weight: 4,
        arbitrary: fc.record({
          what: fc.constant("keyed" as const),
          n: fc.integer({ min: 1, max: 9 }),
          key: fc.integer({ min: 0, max: 4 }),
        }),
      },
      {
        weight: 2,
        arbitrary: fc.record({ what: fc.constant("batch" as const), ns: fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 5 }) }),
      },
      {
        weight: 1,
        arbitrary: fc.record({ what: fc.constantFrom("eviction" as const, "death" as const), shard: fc.integer({ min: 0, max: 2 }) }),
      },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(happening, { maxLength: 15 }), async (happenings) => {
        const { counter, shard } = counting(3);
        let sum = 0;
        const keys = new Set<number>();
        for (const one of happenings) {
          if (one.what === "add") {
            await counter.add(one.n);
            sum += one.n;
          } else if (one.what === "keyed") {
            // Only one of the two adds counts, although the answer of the other was lost.
            const answers = await Promise.all([1, 2].map(() => counter.add(one.n, { key: `key ${one.key}` })));
            expect(answers.filter(Boolean)).toHaveLength(keys.has(one.key) ? 0 : 1);
            if (!keys.has(one.key)) sum += one.n;
            keys.add(one.key);
          } else if (one.what === "batch") {
            await counter.addAll(one.ns);
            sum += one.ns.reduce((so, n) => so + n, 0);
          } else if (one.what === "eviction") {
            await evictDurableObject(shard(one.shard)).catch(() => {});
          } else {
            await runInDurableObject(shard(one.shard), (_, state) => state.abort("It died.")).catch(() => {});
          }
        }
        expect(await counter.read()).toBe(sum);
      }),
      { numRuns: 40 },
    );
  });

  it("a counter counts an add with a key once although its object dies during the answer: the add is repeated automatically", async () => {
    const { counter, shard } = counting(1);
    for (let n = 0; n < 10; n++) {
      const added = counter.add(1, { key: `order ${n}` });
      await runInDurableObject(shard(0), (_, state) => state.abort("It died.")).catch(() => {});
      await added;
    }
    expect(await counter.read()).toBe(10);
  });

  it("a counter writes a key and its count in one transaction", async () => {
    const { counter, shard } = counting(1);
    await counter.add(1);
    await runInDurableObject(shard(0), (_, { storage }) =>
      storage.sql.exec(
        ["UPDATE", "INSERT"]
          .map(
            (writing) => `CREATE TRIGGER full_${writing} BEFORE ${writing} ON minutes BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`,
          )
          .join(";"),
      ),
    );
    await expect(counter.add(1, { key: "once" })).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("same key"),
    });
    await expect(counter.add(1)).rejects.toMatchObject({ code: "unavailable", message: expect.stringContaining("unknown") });
    await runInDurableObject(shard(0), (_, { storage }) => storage.sql.exec("DROP TRIGGER full_UPDATE; DROP TRIGGER full_INSERT"));
    expect(await counter.add(1, { key: "once" })).toBe(true);
    expect(await counter.read()).toBe(2);
  });

  it("a counter can be read from a cache of limited age, without a call", async () => {
    const { counter, calls } = counting(2);
    await counter.add(5);
    expect(await counter.read()).toBe(5);
    await counter.add(1);
    const before = calls.made;
    expect(await counter.read({ maxAgeMs: 60_000 })).toBe(5);
    expect(calls.made).toBe(before);
    expect(await counter.read()).toBe(6);
  });

  it("a counter returns a sum for each minute of the last day, and remembers keys for one week", async () => {
    const { counter, shard } = counting(1);
    const now = Math.floor(Date.now() / 60_000);
    await counter.add(7, { key: "old" });
    const DAY = 1_440;
    await runInDurableObject(shard(0), (_, { storage }) => {
      storage.sql.exec("UPDATE keys SET minute = ?", now - 7 * DAY - 5);
      for (const [ago, n] of [
        [2 * DAY, 100],
        [DAY + 1, 30],
        [DAY - 5, 4],
        [3, 2],
      ] as const) {
        storage.sql.exec("INSERT INTO minutes (minute, n) VALUES (?, ?)", now - ago, n);
      }
      storage.sql.exec("INSERT INTO keys (key, minute) VALUES ('young', ?)", now - 6 * DAY);
    });
    await evictDurableObject(shard(0));
    expect(await counter.add(1)).toBe(true);
    expect(await counter.read()).toBe(7 + 100 + 30 + 4 + 2 + 1);
    const day = await counter.perMinute(DAY);
    expect(day).toHaveLength(DAY);
    expect(day.reduce((sum, { count }) => sum + count, 0)).toBe(7 + 4 + 2 + 1);
    const hour = await counter.perMinute();
    expect(hour).toHaveLength(60);
    expect(hour.reduce((sum, { count }) => sum + count, 0)).toBe(7 + 2 + 1);
    expect(hour.every(({ at }) => at % 60_000 === 0)).toBe(true);
    const rows = await runInDurableObject(shard(0), (_, { storage }) =>
      storage.sql.exec("SELECT n FROM minutes WHERE minute = 0").toArray(),
    );
    expect(rows).toEqual([{ n: 130 }]);
    expect(await counter.add(1, { key: "young" })).toBe(false);
    expect(await counter.add(1, { key: "old" })).toBe(true);
  });

  it("a counter without adds is 0, and a read of it stores nothing", async () => {
    const { counter, shard } = counting(1);
    expect(await counter.read()).toBe(0);
    expect((await counter.perMinute(2)).map(({ count }) => count)).toEqual([0, 0]);
    expect(
      await runInDurableObject(shard(0), (_, { storage }) =>
        storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT GLOB '_cf_*'").toArray(),
      ),
    ).toEqual([]);
  });

  it.each([
    ["no binding", () => counterOf({ COUNTER: undefined } as unknown as CounterEnv, "x")],
    ["an empty name", () => counterOf(env, "")],
    ["no shards", () => counterOf(env, "x", { shards: 0 })],
    ["a fraction", () => counterOf(env, "x").add(0.5)],
    ["NaN", () => counterOf(env, "x").add(Number.NaN)],
    ["a value above the maximum", () => counterOf(env, "x").add(1e13)],
    ["a long key", () => counterOf(env, "x").add(1, { key: "k".repeat(201) })],
    ["values with keys and one common key", () => counterOf(env, "x").addAll([{ n: 1, key: "a" }], { key: "b" })],
    ["more than 1,000 values", () => counterOf(env, "x").addAll(Array.from({ length: 1_001 }, () => 1))],
    ["a read of one week by minutes", () => counterOf(env, "x").perMinute(10_080)],
  ])("a counter refuses an invalid call with an explanation: %s", async (_, act) => {
    await expect((async () => act())()).rejects.toMatchObject({ code: "config_invalid", message: expect.stringMatching(/\.$/) });
  });
});
