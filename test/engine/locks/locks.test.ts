import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { withLock } from "millrace/locks";
import { describe, expect, it } from "vitest";
import { type LockEnv, lockObject } from "../../../packages/millrace/src/locks/client.ts";
import type { Wanted } from "../../../packages/millrace/src/locks/lock.ts";
import { fresh, until } from "../harness.ts";
import { env, lock } from "./locked.ts";

/** A promise that another request can settle. Polls, because a promise must not cross from one request into another. */
function gate() {
  let open = false;
  return {
    open: () => {
      open = true;
    },
    passed: async () => {
      while (!open) await scheduler.wait(5);
    },
  };
}

describe("Locks", () => {
  it("a lock admits one caller at a time, in the order of the requests, each with a higher token", async () => {
    const { under } = lock();
    const order: number[] = [];
    const tokens: number[] = [];
    let inside = 0;
    await Promise.all(
      [1, 2, 3, 4, 5, 6].map((n) =>
        under(async ({ token }) => {
          expect(++inside).toBe(1);
          order.push(n);
          tokens.push(token);
          await scheduler.wait(2);
          inside--;
        }),
      ),
    );
    expect(order).toEqual([1, 2, 3, 4, 5, 6]);
    expect(tokens).toEqual([...new Set(tokens)].toSorted((one, other) => one - other));
  });

  it("a lock returns the result of its function, and is released after an error", async () => {
    const { under } = lock();
    expect(await under(() => 42)).toBe(42);
    await expect(under(() => Promise.reject(new Error("burnt")))).rejects.toThrow("burnt");
    expect(await under(() => "free", { wait: 0 })).toBe("free");
  });

  it("a caller waits for a lock up to its limit and then fails without a run of its function; the error names the holder", async () => {
    const { under, takeAndDie } = lock();
    await takeAndDie(30_000);
    let ran = false;
    const refused = under(
      () => {
        ran = true;
      },
      { wait: 20 },
    );
    await expect(refused).rejects.toMatchObject({
      code: "lock_held",
      message: expect.stringMatching(/is held by dead for \d s\. It expires in (29|30) s if its holder does not renew it\./),
      detail: { delayMs: expect.any(Number) },
    });
    expect(ran).toBe(false);
  });

  it("a try of a held lock is skipped at once or after a wait, and returns the holder and the remaining time", async () => {
    const { attempt, under, takeAndDie } = lock();
    expect(await attempt(({ token }) => token > 0)).toEqual({ ran: true, result: true });
    await expect(attempt(() => Promise.reject(new Error("burnt")))).rejects.toThrow("burnt");
    await takeAndDie(30_000);
    let ran = 0;
    const run = () => ++ran;
    const skipped = { ran: false, holder: "dead", leftMs: expect.toSatisfy((ms: number) => ms > 20_000 && ms <= 30_000), waiting: 0 };
    expect(await attempt(run)).toEqual(skipped);
    expect(await attempt(run, { wait: 20 })).toEqual(skipped);
    expect(ran).toBe(0);
    // Both attempts have left the queue.
    await expect(under(run, { wait: 0 })).rejects.toMatchObject({
      code: "lock_held",
      message: expect.not.stringContaining("waited before"),
    });
  });

  it("a try with a wait acquires a lock that is released in time; of ten concurrent tries one runs its function", async () => {
    const { attempt, takeAndDie, object } = lock();
    const { id } = await takeAndDie(30_000);
    const waiting = attempt(() => "mine", { wait: "10 seconds" });
    await object.release(id);
    expect(await waiting).toEqual({ ran: true, result: "mine" });
    const hold = gate();
    const tries = Array.from({ length: 10 }, () => attempt(hold.passed));
    const skipped = await until(
      async () => Promise.all(tries.map((one) => Promise.race([one, scheduler.wait(1)]))),
      (ended) => ended.filter((one) => one !== undefined).length === 9,
    );
    hold.open();
    expect(skipped.filter((one) => one && !one.ran)).toHaveLength(9);
    expect((await Promise.all(tries)).filter(({ ran }) => ran)).toHaveLength(1);
  });

  it("a lock with a dead holder is held until its time ends, and no longer", async () => {
    const { under, takeAndDie } = lock();
    const began = Date.now();
    const { token: dead } = await takeAndDie(1_000);
    const token = await under(({ token }) => token);
    expect(Date.now() - began).toBeGreaterThanOrEqual(1_000);
    expect(token).toBeGreaterThan(dead ?? Number.POSITIVE_INFINITY);
  });

  it("a lock is renewed while its holder runs, also when the lock's object dies", async () => {
    const { under, die } = lock({ ttl: "1 second" });
    const lost = await under(async ({ signal }) => {
      await scheduler.wait(500);
      await die();
      await scheduler.wait(900);
      await expect(under(() => 1, { wait: 0 })).rejects.toMatchObject({ code: "lock_held" });
      return signal.aborted;
    });
    expect(lost).toBe(false);
  });

  it("a lock keeps the order of waiting callers when its object dies, and skips callers that have gone", async () => {
    const { under, die, object, name } = lock();
    const { open, passed } = gate();
    const order: string[] = [];
    const waitingFor = (count: number) =>
      until(
        () => object.look(),
        (seen) => seen?.waiting === count,
      );
    const holding = under(passed);
    await waitingFor(0);
    const gone = object.acquire({ id: "gone", who: "", ttlMs: 30_000, waitMs: 300_000, tenantId: "", name }).catch(() => "gone");
    await waitingFor(1);
    const waiting: Promise<unknown>[] = [];
    for (const [index, one] of ["first", "second", "third"].entries()) {
      waiting.push(under(() => order.push(one)));
      await waitingFor(2 + index);
    }
    await die();
    await gone;
    open();
    await Promise.all([holding, ...waiting]);
    expect(order).toEqual(["first", "second", "third"]);
  });

  it("a lock that is lost aborts its holder's signal, and fails instead of returning the result", async () => {
    const { under, stub } = lock({ ttl: "1 second" });
    const lost = under(async ({ signal }) => {
      await runInDurableObject(stub, (_, { storage }) => storage.kv.put("state", { ...storage.kv.get<object>("state"), holder: null }));
      while (!signal.aborted) await scheduler.wait(5);
      expect(signal.reason).toMatchObject({ code: "lock_lost" });
      return "never heard";
    });
    await expect(lost).rejects.toMatchObject({ code: "lock_lost" });
  });

  it("a lock that an operator breaks is lost, also when the holder ends before its next renewal", async () => {
    const { under, object, name } = lock();
    const order: string[] = [];
    const lost = under(async () => {
      const action = { id: crypto.randomUUID(), verb: "break", target: name, instanceId: null, reason: "it hangs" };
      await object.breakNow({ tenantId: "", name }, { tenantId: "", actor: "tess" }, action);
      await under(() => order.push("the next"));
      return order.push("the first");
    });
    await expect(lost).rejects.toMatchObject({ code: "lock_lost" });
    expect(order).toEqual(["the next", "the first"]);
  });

  it("a lock is not reported as lost when the answer to its release is lost", async () => {
    const { under, name } = lock();
    const releases: boolean[] = [];
    const getByName = (id: string) => {
      const object = lockObject(env, { tenantId: "", name });
      expect(id).toBe(`/${name}`);
      const release = async (holder: string) => {
        releases.push(await object.release(holder));
        if (releases.length === 1) throw new Error("The connection was lost.");
        return releases.at(-1);
      };
      return { acquire: (wanted: Wanted) => object.acquire(wanted), release };
    };
    expect(await withLock({ LOCK: { getByName } as unknown as LockEnv["LOCK"] }, name, {}, () => 42)).toBe(42);
    expect(releases).toEqual([true, true]);
    expect(await under(() => "free", { wait: 0 })).toBe("free");
  });

  it("a caller that waits for a lock keeps its place during an outage of the lock's object", async () => {
    const { name, under } = lock();
    const at: number[] = [];
    const acquire = async (wanted: Wanted) => {
      at.push(Date.now());
      if (at.length < 7) throw new Error("The object cannot start.");
      return lockObject(env, { tenantId: "", name }).acquire(wanted);
    };
    const release = (id: string) => lockObject(env, { tenantId: "", name }).release(id);
    const LOCK = { getByName: () => ({ acquire, release }) } as unknown as LockEnv["LOCK"];
    expect(await withLock({ LOCK }, name, { wait: "20 seconds" }, () => "in")).toBe("in");
    // The delay that doubling alone would have reached.
    expect(Math.max(...at.slice(1).map((time, index) => time - (at[index] ?? 0)))).toBeLessThan(1_600);
    expect(await under(() => "free", { wait: 0 })).toBe("free");
  });

  it("a lock grants higher tokens also after its state was deleted one day after the last use", async () => {
    const { under, stub } = lock();
    const first = await under(({ token }) => token);
    await runInDurableObject(stub, (_, { storage }) => storage.kv.put("state", { ...(storage.kv.get<object>("state") ?? {}), usedAt: 0 }));
    expect(await runDurableObjectAlarm(stub)).toBe(true);
    expect(await runInDurableObject(stub, (_, { storage }) => [...storage.kv.list()].length)).toBe(0);
    expect(await under(({ token }) => token)).toBeGreaterThan(first);
  });

  it("the lock of a tenant is separate from equal locks of other tenants and of the deployment", async () => {
    const name = fresh("lock");
    const inAll = await withLock(env, name, { tenantId: "acme" }, () =>
      withLock(env, name, { tenantId: "umbrella", wait: 0 }, () => withLock(env, name, { wait: 0 }, () => "in all three")),
    );
    expect(inAll).toBe("in all three");
  });

  it("a lock whose object is not bound fails with the binding to add", async () => {
    const unbound = withLock({ LOCK: undefined } as unknown as LockEnv, "x", {}, () => 1);
    await expect(unbound).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringContaining('"Lock": {"type": "durable-object"'),
    });
  });

  it.each([
    ["", {}, "has 1 to 200 characters"],
    ["x".repeat(201), {}, "has 1 to 200 characters"],
    ["a\nb", {}, "control character"],
    ["..", {}, 'is not "." or ".."'],
    ["ok", { tenantId: "A/B" }, '"A/B" is not a tenant'],
    ["ok", { ttl: 10 }, "a ttl of 10"],
    ["ok", { ttl: "3 lifetimes" as "3 days" }, "is not a duration"],
    ["ok", { ttl: "5 seconds or so" as "5 seconds" }, "is not a duration"],
    ["ok", { wait: "2 hours" as const }, "at most 10 minutes"],
    ["ok", { holder: "x".repeat(101) }, "more than 100 characters"],
  ])("a lock with the invalid name or options %j %j is refused", async (name, options, said) => {
    await expect(withLock(env, name, options, () => 1)).rejects.toMatchObject({
      code: "config_invalid",
      message: expect.stringContaining(said),
    });
  });
});
