import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { limitOf } from "millrace/limits";
import { describe, expect, it } from "vitest";
import type { LimitEnv } from "../../../packages/millrace/src/limits/client.ts";
import { fresh, probeEnv } from "../harness.ts";

const env = probeEnv as unknown as Required<LimitEnv>;
const HOURLY = [{ limit: 10, periodMs: 3_600_000 }];
const BUCKET = [{ burst: 5, refill: 5, periodMs: 3_600_000 }];
const times = <T>(count: number, act: () => Promise<T>) => Promise.all(Array.from({ length: count }, act));
const taken = (answers: { taken: boolean }[]) => answers.filter((one) => one.taken).length;
const refusal = (seconds: number) => ({ status: 429, headers: { "retry-after": String(seconds) } });

describe("Limits", () => {
  it("L03 a limit grants a call or returns the wait time, and keeps its state when its object is evicted", async () => {
    for (const [rules, most] of [[HOURLY, 10] as const, [BUCKET, 5] as const, [[...HOURLY, ...BUCKET], 5] as const]) {
      const name = fresh("limit");
      const answers: Awaited<ReturnType<ReturnType<typeof limitOf>["tryTake"]>>[] = [];
      for (let part = 0; part < 4; part++) {
        answers.push(...(await times(4, () => limitOf(env, name, rules).tryTake())));
        await evictDurableObject(env.RATE_LIMIT.getByName(name));
      }
      expect(taken(answers)).toBe(most);
      const waits = answers.filter((one) => !one.taken).map(({ waitMs }) => waitMs);
      expect(Math.min(...waits)).toBeGreaterThan(600_000);
    }
  });

  it("L03 a limit whose object dies during an answer does not grant more calls than allowed", async () => {
    const name = fresh("limit");
    const heard: boolean[] = [];
    for (let part = 0; part < 6; part++) {
      const asked = times(4, () =>
        limitOf(env, name, HOURLY)
          .tryTake()
          .catch(() => ({ taken: false })),
      );
      await runInDurableObject(env.RATE_LIMIT.getByName(name), (_, state) => state.abort("It died.")).catch(() => {});
      heard.push(...(await asked).map((one) => one.taken));
    }
    const after = await times(10, () => limitOf(env, name, HOURLY).tryTake());
    expect(heard.filter(Boolean).length + taken(after)).toBeLessThanOrEqual(10);
  });

  it("a limit with a bucket grants a burst at once, and then calls at the refill rate", async () => {
    const limit = limitOf(env, fresh("limit"), [{ burst: 3, refill: 1, periodMs: 100 }]);
    const began = Date.now();
    await times(5, () => limit.take());
    expect(Date.now() - began).toBeGreaterThanOrEqual(195);
    expect(Date.now() - began).toBeLessThan(5_000);
  });

  it("a limit counts the cost of a call, and refuses a cost above its capacity at once", async () => {
    const limit = limitOf(env, fresh("limit"), [...HOURLY, ...BUCKET]);
    await expect(limit.tryTake(6)).rejects.toMatchObject({ code: "config_invalid", message: expect.stringContaining("at most 5 at once") });
    expect(await limit.tryTake(5)).toEqual({ taken: true, waitMs: 0, remaining: 0 });
    expect(await limit.tryTake(5)).toMatchObject({ taken: false, remaining: 0 });
  });

  it("a limit returns the remaining calls: the minimum of its rules and of the upstream's count, and 0 during a pause", async () => {
    const name = fresh("limit");
    const limit = limitOf(env, name, [...HOURLY, ...BUCKET]);
    expect(await limit.tryTake(2)).toEqual({ taken: true, waitMs: 0, remaining: 3 });
    expect(await limit.tryTake(4)).toEqual({ taken: false, waitMs: expect.any(Number), remaining: 3 });
    await evictDurableObject(env.RATE_LIMIT.getByName(name));
    expect(await limit.tryTake()).toMatchObject({ taken: true, remaining: 2 });
    await limit.heed({ status: 200, headers: { ratelimit: '"default";r=2;t=60', "ratelimit-policy": '"default";q=100;w=60' } });
    expect(await limit.tryTake()).toMatchObject({ taken: true, remaining: 1 });
    await limit.pause(60_000);
    expect(await limit.tryTake()).toMatchObject({ taken: false, remaining: 0 });
    const calls = { count: 0 };
    const counting = {
      RATE_LIMIT: {
        getByName: (id: string) => {
          calls.count++;
          return env.RATE_LIMIT.getByName(id);
        },
      },
    } as unknown as LimitEnv;
    expect(await limitOf(counting, fresh("limit"), HOURLY).tryTake()).toMatchObject({ remaining: 9 });
    expect(calls.count).toBe(1);
  });

  // The large margin prevents late callers on a busy machine, which would be requeued
  // after the others.
  it("a limit keeps a deadline and a place in the order for each waiting caller", async () => {
    const every = (periodMs: number) => limitOf(env, fresh("limit"), [{ burst: 1, refill: 1, periodMs }], { marginMs: 10_000 });
    const [slow, quick] = [every(1_500), every(100)];
    await Promise.all([slow.take(), quick.take()]);
    const patient = slow.take(1, { patienceMs: 10_000 });
    await expect(slow.take(1, { patienceMs: 20 })).rejects.toMatchObject({ code: "retry_after", detail: { delayMs: expect.any(Number) } });
    const order: number[] = [];
    await Promise.all([1, 2, 3].map((one) => quick.take(1, { patienceMs: 10_000 }).then(() => order.push(one))));
    expect(order).toEqual([1, 2, 3]);
    await patient;
  });

  it("a limit delays all new and waiting callers after one 429", async () => {
    const [name, rule] = [fresh("limit"), { limit: 1, periodMs: 2_500 }];
    const limit = () => limitOf(env, name, [rule], { marginMs: 0 });
    await limitOf(env, name, [rule]).take();
    // The assigned time of this caller is more than one second away, so the delay revokes it.
    const waiting = limitOf(env, name, [rule]).take(1, { patienceMs: 5_000 });
    await scheduler.wait(20);
    await limit().heed(refusal(600));
    expect((await limit().tryTake()).waitMs).toBeGreaterThan(590_000);
    await expect(waiting).rejects.toMatchObject({ code: "retry_after" });
  });

  it("a limit keeps its pause when its object is evicted, and accepts at most one hour from a header", async () => {
    const name = fresh("limit");
    const limit = limitOf(env, name, HOURLY);
    await limit.heed(refusal(10 * 86_400));
    await evictDurableObject(env.RATE_LIMIT.getByName(name));
    const { taken, waitMs } = await limit.tryTake();
    expect(taken).toBe(false);
    expect(waitMs).toBeGreaterThan(3_500_000);
    expect(waitMs).toBeLessThanOrEqual(3_600_000);
  });

  it("a limit gives its refused callers retry times at intervals of one period", async () => {
    const limit = limitOf(env, fresh("limit"), [{ burst: 1, refill: 1, periodMs: 60_000 }]);
    await limit.take();
    const refused = await times(5, () => limit.take(1, { patienceMs: 2_000 }).catch((error) => error.detail.delayMs as number));
    const sorted = refused.map(Number).toSorted((one, other) => one - other);
    expect(sorted.slice(1).map((wait, index) => Math.round((wait - (sorted[index] ?? 0)) / 60_000))).toEqual([1, 1, 1, 1]);
    expect((await limit.tryTake()).waitMs).toBeLessThanOrEqual(60_000);
  });

  it("a limit returns the time for which an upstream refuses calls", async () => {
    const limit = limitOf(env, fresh("limit"), HOURLY);
    expect(await limit.heed({ status: 200, headers: {} })).toBe(0);
    expect(await limit.heed({ status: 429, headers: {} })).toBe(1_000);
    expect(await limit.heed(refusal(7))).toBe(7_000);
  });

  it("the call of a limit is repeated when its object dies during the answer", async () => {
    const name = fresh("limit");
    let asked = 0;
    const getByName = () => {
      if (++asked < 3) throw new Error("The object died.");
      return env.RATE_LIMIT.getByName(name);
    };
    await limitOf({ RATE_LIMIT: { getByName } as unknown as LimitEnv["RATE_LIMIT"] }, name, HOURLY).take();
    expect(asked).toBe(3);
    const raw = () => {
      throw new Error("raw");
    };
    const down = { getByName: raw } as unknown as LimitEnv["RATE_LIMIT"];
    await expect(limitOf({ RATE_LIMIT: down }, name, HOURLY).take()).rejects.toMatchObject({ code: "unavailable" });
  });

  it.each([Number.NaN, -1, Number.POSITIVE_INFINITY])("a limit refuses an invalid duration: %s", async (ms) => {
    const no = expect.objectContaining({ code: "config_invalid" });
    expect(() => limitOf(env, "wrong", HOURLY, { marginMs: ms })).toThrow(no);
    expect(() => limitOf(env, "wrong", HOURLY, { patienceMs: ms })).toThrow(no);
    await expect(limitOf(env, "wrong", HOURLY).take(1, { patienceMs: ms })).rejects.toEqual(no);
    await expect(limitOf(env, "wrong", HOURLY).pause(ms)).rejects.toEqual(no);
  });

  it("a limit whose object is not bound fails with the binding to add", () => {
    expect(() => limitOf({ RATE_LIMIT: undefined } as unknown as LimitEnv, "x", HOURLY)).toThrow(
      expect.objectContaining({ code: "config_invalid" }),
    );
  });

  it.each([
    [[], "has no rule"],
    [[{ limit: 0, periodMs: 1000 }], "limit 0"],
    [[{ limit: 5, periodMs: Number.NaN }], "periodMs NaN"],
    [[{ burst: 5, refill: -1, periodMs: 1000 }], "refill -1"],
    [[...HOURLY, ...HOURLY], "more than one window of 3600000 ms"],
  ])("a limit with the invalid rules %j is refused at its definition", (rules, said) => {
    expect(() => limitOf(env, "wrong", rules)).toThrow(
      expect.objectContaining({ code: "config_invalid", message: expect.stringContaining(said) }),
    );
  });
});
