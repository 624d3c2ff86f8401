import fc from "fast-check";
import type { Window } from "millrace/limits";
import { expect, it } from "vitest";
import type { TokenBucket } from "../../../packages/millrace/src/limits/bucket.ts";
import { type Happening, mostWithin, play } from "./model.ts";

const window: fc.Arbitrary<Window> = fc.record({ limit: fc.integer({ min: 5, max: 12 }), periodMs: fc.integer({ min: 40, max: 4_000 }) });
const bucket: fc.Arbitrary<TokenBucket> = fc.record({
  burst: fc.integer({ min: 5, max: 12 }),
  refill: fc.integer({ min: 1, max: 12 }),
  periodMs: fc.integer({ min: 40, max: 4_000 }),
});
const afterMs = fc.integer({ min: 0, max: 700 });
const ask = fc.record({
  what: fc.constant("ask" as const),
  afterMs,
  cost: fc.integer({ min: 1, max: 5 }),
  patienceMs: fc.constantFrom(0, 300, 5_000, 60_000),
  isLate: fc.boolean(),
});
const upset = fc.oneof(
  fc.record({ what: fc.constant("refusal" as const), afterMs, forMs: fc.integer({ min: 0, max: 5_000 }) }),
  fc.record({
    what: fc.constant("little left" as const),
    afterMs,
    count: fc.integer({ min: 0, max: 3 }),
    forMs: fc.integer({ min: 0, max: 5_000 }),
  }),
);
const eviction = fc.record({ what: fc.constant("eviction" as const), afterMs });
const anything = fc.array(fc.oneof({ weight: 8, arbitrary: ask }, { weight: 1, arbitrary: upset }, { weight: 1, arbitrary: eviction }), {
  maxLength: 60,
});

it("a limit never exceeds its window or its bucket, for any callers, delays, upstream refusals and evictions", () => {
  fc.assert(
    fc.property(window, bucket, anything, fc.integer({ min: 0, max: 300 }), (one, other, happenings, marginMs) => {
      const { sent } = play([one, other], happenings, marginMs);
      expect(mostWithin(one.periodMs + marginMs, sent)).toBeLessThanOrEqual(one.limit);
      // In every interval between two calls a bucket allows its burst plus the refill of that interval.
      let owed = 0;
      let last = sent[0]?.at ?? 0;
      for (const { at, cost } of sent) {
        owed = Math.max(0, owed - ((at - last) * other.refill) / other.periodMs) + cost;
        last = at;
        expect(owed).toBeLessThanOrEqual(other.burst + 1e-6);
      }
    }),
    { numRuns: 1_000 },
  );
});

it("a limit refuses no caller while it has capacity, unless other callers wait or the upstream has refused", () => {
  const impatient = fc.array(
    ask.map((one) => ({ ...one, patienceMs: 0, isLate: false })),
    { maxLength: 60 },
  );
  fc.assert(
    fc.property(window, impatient, (rule, happenings) => {
      const { sent, refused } = play([rule], happenings);
      for (const { at, cost } of refused) {
        // A window expires in steps of one fortieth of its period, so late and never early.
        const span = rule.periodMs + Math.max(1, Math.floor(rule.periodMs / 40));
        const used = sent.filter((one) => one.at <= at && one.at > at - span).reduce((sum, one) => sum + one.cost, 0);
        expect(used + cost).toBeGreaterThan(rule.limit);
      }
    }),
    { numRuns: 500 },
  );
  fc.assert(
    fc.property(bucket, impatient, (rule, happenings) => {
      const { sent, refused } = play([rule], happenings);
      for (const no of refused) {
        let tokens = rule.burst;
        let last = 0;
        for (const { at, cost } of [...sent.filter(({ at }) => at <= no.at), { at: no.at, cost: 0 }]) {
          tokens = Math.min(rule.burst, tokens + ((at - last) * rule.refill) / rule.periodMs) - cost;
          last = at;
        }
        expect(tokens).toBeLessThan(no.cost + 1e-6);
      }
    }),
    { numRuns: 500 },
  );
});

it("an upstream that refused gets no call during its Retry-After, except granted calls within the first second", () => {
  fc.assert(
    fc.property(window, anything, (rule, happenings) => {
      const { sent, heard } = play([rule], happenings);
      for (const { at, forMs } of heard) expect(sent.filter((one) => one.at > at + 1_000 && one.at < at + forMs)).toEqual([]);
    }),
    { numRuns: 500 },
  );
});

const times = (count: number, happening: Happening) => Array.from({ length: count }, () => happening);
const eager: Happening = { what: "ask", afterMs: 10, cost: 1, patienceMs: 600_000, isLate: false };

it("the rate of a limit is halved after an upstream refusal, and full again after thirty seconds; ten simultaneous refusals count as one", () => {
  const rule = { limit: 20, periodMs: 1_000 };
  const refusal: Happening = { what: "refusal", afterMs: 5, forMs: 2_000 };
  const { sent, heard } = play([rule], [...times(10, refusal), ...times(1_800, { ...eager, afterMs: 40 })]);
  const resumedAt = (heard.at(-1)?.at ?? 0) + 2_000;
  const rateIn = (from: number, to: number) =>
    sent.filter(({ at }) => at >= resumedAt + from * 1_000 && at < resumedAt + to * 1_000).length / (to - from);
  expect(rateIn(0, 2)).toBeGreaterThanOrEqual(9);
  expect(rateIn(0, 2)).toBeLessThanOrEqual(11);
  expect(rateIn(14, 16)).toBeGreaterThanOrEqual(14);
  expect(rateIn(14, 16)).toBeLessThanOrEqual(16);
  // A window that is counted in steps of one fortieth is one step longer.
  expect(rateIn(32, 42)).toBeGreaterThan(18);
});

it("a limit grants at most the remaining count of the upstream until its reset", () => {
  const rule = { limit: 100, periodMs: 1_000 };
  const { sent } = play([rule], [{ what: "little left", afterMs: 0, count: 3, forMs: 5_000 }, ...times(50, eager)]);
  expect(sent.filter(({ at }) => at < 1_005_000)).toHaveLength(3);
  expect(sent.filter(({ at }) => at < 1_007_000)).toHaveLength(50);
});

it("a limit with several upstream quotas applies all: the quota of the minute still applies after the reset of the shorter quota", () => {
  const day: Happening = { what: "little left", afterMs: 0, count: 2, forMs: 60_000 };
  const burst: Happening = { what: "little left", afterMs: 0, count: 0, forMs: 1_000 };
  for (const told of [
    [day, burst],
    [burst, day],
  ]) {
    const { sent } = play([{ limit: 1_000, periodMs: 60_000 }], [...told, ...times(20, eager)]);
    expect(sent.filter(({ at }) => at < 1_001_000)).toHaveLength(0);
    expect(sent.filter(({ at }) => at < 1_060_000)).toHaveLength(2);
  }
});

it("calls with an assigned time count toward the remaining count of the upstream", () => {
  const rule = { burst: 1, refill: 10, periodMs: 1_000 };
  const { sent } = play([rule], [...times(30, { ...eager, afterMs: 0 }), { what: "little left", afterMs: 300, count: 2, forMs: 6_000 }]);
  const after = sent.filter(({ at }) => at > 1_001_300 && at < 1_006_300);
  expect(after).toEqual([]);
});

it.each([
  ["punctual", () => 0],
  ["twenty milliseconds late for waiting callers", (nth: number) => (nth < 8 ? 20 : 0)],
])(
  "after an upstream refusal waiting callers precede later callers, in the order of their requests, with timers that are %s",
  (_, lateMs) => {
    const rule = { burst: 1, refill: 1, periodMs: 1_000 };
    const askers = (count: number, cost: number): Happening[] =>
      times(count, { what: "ask", afterMs: 40, cost, patienceMs: 60_000, isLate: false });
    const { sent, refused } = play(
      [{ ...rule, burst: 2 }],
      [...askers(8, 2), { what: "refusal", afterMs: 1_200, forMs: 2_000 }, ...askers(8, 1)],
      0,
      lateMs,
    );
    expect(refused).toEqual([]);
    expect(sent.map(({ cost }) => cost)).toEqual([...Array(8).fill(2), ...Array(8).fill(1)]);
  },
);
