import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { limitOf, type Window } from "millrace/limits";
import { describe, expect, it } from "vitest";
import type { Answer } from "../../packages/millrace/src/limits/plan.ts";
import { type Counts, counted, earliest, fits } from "../../packages/millrace/src/limits/windows.ts";
import { fresh } from "../api/client.ts";

const HOUR_MS = 3_600_000;
const BURST = { limit: 100, periodMs: 10_000 };
const DAILY = { limit: 250, periodMs: 86_400_000 };
const MARGIN_MS = 1_000;

interface Asked {
  windows?: readonly Window[];
  cost?: number;
  patienceMs?: number;
}

/** One limiter, called directly: its grants are visible without waiting for them. */
function limiter(name = fresh()) {
  const stub = env.RATE_LIMIT.getByName(name);
  const take = ({ windows = [BURST], cost = 1, patienceMs = HOUR_MS }: Asked = {}): Promise<Answer> =>
    stub.take({ rules: windows, cost, patienceMs, marginMs: MARGIN_MS });
  return { stub, take, pause: (ms: number) => stub.pause(ms) };
}

/** The maximum of grants in any window of a period. */
function mostIn(periodMs: number, moments: readonly number[]): number {
  const sorted = [...moments].sort((one, two) => one - two);
  let most = 0;
  for (let first = 0, last = 0; last < sorted.length; last++) {
    while ((sorted[last] ?? 0) - (sorted[first] ?? 0) >= periodMs) first++;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

const times = <T>(count: number, act: () => Promise<T>) => Promise.all(Array.from({ length: count }, act));

describe("A shared limit", () => {
  it("a shared limit is fully used, but never exceeded in any window of its period, by 500 concurrent callers", async () => {
    const { take } = limiter();
    const asked = Date.now();
    const moments = (await times(500, () => take())).map(({ at }) => at);
    const askingMs = Date.now() - asked;
    expect(mostIn(BURST.periodMs + MARGIN_MS, moments)).toBe(100);
    // Five hundred grants need four periods, each 1/40 longer because of the counting method.
    const least = 4 * (BURST.periodMs + MARGIN_MS + BURST.periodMs / 40);
    expect(Math.max(...moments) - Math.min(...moments)).toBeLessThanOrEqual(least + askingMs);
  });

  it("a shared limit is first in, first out", async () => {
    const { take } = limiter();
    const moments = (await times(250, () => take())).map(({ at }) => at);
    expect(moments).toEqual([...moments].sort((one, two) => one - two));
  });

  it("a shared limit loses no grant when its object is evicted in between", async () => {
    const { stub, take } = limiter();
    const moments: number[] = [];
    for (let part = 0; part < 5; part++) {
      moments.push(...(await times(60, () => take())).map(({ at }) => at));
      await evictDurableObject(stub);
    }
    expect(mostIn(BURST.periodMs + MARGIN_MS, moments)).toBe(100);
  });

  it("a shared limit can have several windows at once", async () => {
    const { take } = limiter();
    const asked = await times(300, () => take({ windows: [BURST, DAILY] }));
    const given = asked.filter(({ go }) => go).map(({ at }) => at);
    expect(given).toHaveLength(250);
    expect(mostIn(BURST.periodMs + MARGIN_MS, given)).toBe(100);
    const turnedAway = asked.filter(({ go }) => !go);
    expect(Math.min(...turnedAway.map(({ waitMs }) => waitMs))).toBeGreaterThan(DAILY.periodMs - 60_000);
  });

  it("a shared limit reserves nothing for a caller whose maximum wait is too short", async () => {
    const { take } = limiter();
    await times(100, () => take());
    const impatient = await times(50, () => take({ patienceMs: 5_000 }));
    expect(impatient.every(({ go, waitMs }) => !go && waitMs > 5_000)).toBe(true);
    const patient = await times(100, () => take());
    // If callers with a short maximum wait reserved grants, half of the other callers would be one period later.
    const firstFree = Math.min(...impatient.map(({ at }) => at));
    expect(Math.max(...patient.map(({ at }) => at))).toBeLessThan(firstFree + BURST.periodMs);
  });

  it("a shared limit grants nothing during a pause, and a shorter pause does not end a longer one", async () => {
    const { take, pause } = limiter();
    const before = Date.now();
    await pause(600_000);
    await pause(1_000);
    expect((await take()).at).toBeGreaterThanOrEqual(before + 600_000);
  });

  it("a shared limit keeps its counts when the limit is changed", async () => {
    const { take } = limiter();
    await times(100, () => take());
    expect((await take({ windows: [{ ...BURST, limit: 101 }] })).waitMs).toBe(0);
    expect((await take({ windows: [{ ...BURST, limit: 50 }] })).waitMs).toBeGreaterThan(9_000);
  });

  it.each([
    ["at once, if no later grant is reserved", 0, 60],
    ["within the reservations for later", 50, 0],
  ])("a shared limit releases the times of late callers, and assigns them other times %s", async (_, later, atOnce) => {
    const { stub, take } = limiter();
    const first = await times(100, () => take());
    const promised = await times(later, () => take());
    const late = first.slice(0, 60).map(({ at, revision }) => ({ at, revision, isLate: true }));
    const ask = { rules: [BURST], cost: 1, patienceMs: HOUR_MS, marginMs: MARGIN_MS };
    const again: Answer[] = await Promise.all(late.map((held) => stub.take({ ...ask, held })));
    const used = [...first.slice(60), ...promised, ...again].map(({ at }) => at);
    expect(mostIn(BURST.periodMs + MARGIN_MS, used)).toBeLessThanOrEqual(100);
    expect(again.filter(({ waitMs }) => waitMs === 0).length).toBeGreaterThanOrEqual(atOnce);
  });

  it("a shared limit holds for any costs, periods, pauses between the calls, and released times", () => {
    const ask = fc.record({ cost: fc.integer({ min: 1, max: 5 }), gapMs: fc.integer({ min: 0, max: 700 }), late: fc.boolean() });
    const limits = fc.record({ limit: fc.integer({ min: 5, max: 12 }), periodMs: fc.integer({ min: 1, max: 2_000 }) });
    fc.assert(
      fc.property(limits, fc.array(ask, { maxLength: 60 }), fc.integer({ min: 0, max: 300 }), (window, asks, marginMs) => {
        let counts: Counts = [];
        let now = 1_000_000;
        let last = 0;
        const moments: number[] = [];
        for (const { cost, gapMs, late } of asks) {
          now += gapMs;
          const granted = () => ({ window, counts, marginMs });
          let at = earliest(granted(), { cost, at: Math.max(now, last) });
          last = at;
          counts = counted(granted(), { cost, at }, now);
          if (late) {
            counts = counted(granted(), { cost: -cost, at }, now);
            at = fits(granted(), { cost, at: now }) ? now : earliest(granted(), { cost, at: Math.max(now, last) });
            last = Math.max(at, last);
            counts = counted(granted(), { cost, at }, now);
          }
          for (let one = 0; one < cost; one++) moments.push(at);
        }
        expect(mostIn(window.periodMs + marginMs, moments)).toBeLessThanOrEqual(window.limit);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("limitOf", () => {
  const windows = [{ limit: 2, periodMs: 60_000 }];

  it("limitOf returns the time to retry if a wait would exceed the caller's maximum", async () => {
    const limit = limitOf(env, fresh(), windows);
    await limit.take(2);
    await expect(limit.take()).rejects.toMatchObject({ code: "retry_after", detail: { delayMs: expect.any(Number) } });
  });

  it("limitOf waits for the caller's grant", async () => {
    const limit = limitOf(env, fresh(), [{ limit: 1, periodMs: 400 }], { marginMs: 1_000 });
    const asked = Date.now();
    await limit.take();
    await limit.take();
    expect(Date.now() - asked).toBeGreaterThanOrEqual(1_400);
  });

  it("limitOf refuses at once a cost that exceeds the limit", async () => {
    await expect(limitOf(env, "small", windows).take(3)).rejects.toMatchObject({
      code: "config_invalid",
      message: /"small" allows at most 2/,
    });
    await expect(limitOf(env, "small", windows).take(0)).rejects.toMatchObject({ code: "config_invalid" });
  });
});
