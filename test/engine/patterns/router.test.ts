import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import type { Partner, Router } from "../../docs/examples/router.ts";
import { dieAt, fresh, keeperRound, probeEnv, rows, until } from "../harness.ts";

const { ROUTER } = probeEnv as unknown as { ROUTER: DurableObjectNamespace<Router> };

async function market(...partners: Partner[]) {
  const name = fresh("market");
  const object = ROUTER.getByName(name);
  await object.configure("acme", partners);
  return {
    object,
    evict: () => evictDurableObject(object),
    decide: async (request: string) => (await object.decide(`${name}/${request}`))?.partner ?? null,
    /** Waits for this number of recorded decisions, and returns them. */
    recorded: (count: number) =>
      until(
        () => rows<{ partner: string; bid_cents: number }>("SELECT partner, bid_cents FROM decisions WHERE request LIKE ?1", `${name}/%`),
        ({ length }) => length === count,
      ),
  };
}

describe("The router of docs/objects.md", () => {
  beforeAll(
    async () =>
      void (await env.DB.exec("CREATE TABLE IF NOT EXISTS decisions (request TEXT PRIMARY KEY, partner TEXT, bid_cents INTEGER)")),
  );

  it("the router of docs/objects.md gives each request to the best bid within its budget, once, for any number of concurrent requests", async () => {
    const { decide, recorded } = await market(
      { partner: "high", bid_cents: 30, budget_cents: 300 },
      { partner: "low", bid_cents: 20, budget_cents: 10_000 },
    );
    const requests = Array.from({ length: 60 }, (_, n) => String(n));
    const first = await Promise.all(requests.map(decide));
    const again = await Promise.all(requests.map(decide));
    expect(again).toEqual(first);
    expect(first.filter((partner) => partner === "high")).toHaveLength(10);
    expect(first.filter((partner) => partner === "low")).toHaveLength(50);
    const facts = await recorded(60);
    expect(facts.filter(({ partner }) => partner === "high").reduce((sum, one) => sum + one.bid_cents, 0)).toBe(300);
  });

  it("the router of docs/objects.md keeps its decisions and budgets when it is evicted", async () => {
    const { decide, evict } = await market({ partner: "only", bid_cents: 10, budget_cents: 20 });
    expect([await decide("a"), await decide("b")]).toEqual(["only", "only"]);
    await evict();
    expect([await decide("a"), await decide("c")]).toEqual(["only", null]);
  });

  it("the router of docs/objects.md prefers a healthy partner to a slightly better bid, and skips a failing one until it recovers", async () => {
    const { object, decide } = await market(
      { partner: "high", bid_cents: 30, budget_cents: 1_000_000 },
      { partner: "low", bid_cents: 20, budget_cents: 1_000_000 },
    );
    await object.report("high", false);
    expect(await decide("a")).toBe("high");
    await object.report("high", false);
    await object.report("high", false);
    expect(await decide("b")).toBe("low");
    for (let n = 0; n < 5; n++) await object.report("low", false);
    for (let n = 0; n < 5; n++) await object.report("high", false);
    expect(await decide("c")).toBeNull();
    for (let n = 0; n < 5; n++) await object.report("high", true);
    expect(await decide("c")).toBe("high");
  });

  it("the router of docs/objects.md publishes each decision once when it dies before or after the commit", async () => {
    for (const point of ["A01 before an event commits", "A03 event committed, not sent", "A02 event committed, not answered"] as const) {
      const { object, decide, evict, recorded } = await market({ partner: "only", bid_cents: 10, budget_cents: 1_000 });
      const death = dieAt(point);
      await runInDurableObject(object, async (router) => {
        for (const request of ["a", "b", "c"]) router.decide(`${object.name}/${request}`);
        await expect(router.alarm()).rejects.toThrow("Died");
      });
      expect(death.died(), point).toBe(true);
      await evict();
      expect(await decide("a")).toBe("only");
      await runDurableObjectAlarm(object);
      await keeperRound();
      expect(await recorded(3), point).toHaveLength(3);
    }
  });
});
