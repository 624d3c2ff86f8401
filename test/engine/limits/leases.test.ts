import { expect, it } from "vitest";
import type { LimitEnv } from "../../../packages/millrace/src/limits/client.ts";
import { Leases } from "../../../packages/millrace/src/limits/leases.ts";
import { fresh, probeEnv } from "../harness.ts";

const WINDOW = { limit: 200, periodMs: 60_000 };

/** A limiter that counts the calls to its objects. */
function counting(): { env: LimitEnv; calls: { objects: number } } {
  const { RATE_LIMIT } = probeEnv as unknown as Required<LimitEnv>;
  const calls = { objects: 0 };
  const getByName = (name: string) => {
    calls.objects++;
    return RATE_LIMIT.getByName(name);
  };
  return { env: { RATE_LIMIT: { getByName } as unknown as LimitEnv["RATE_LIMIT"] }, calls };
}

it.each([
  ["one after another", 1],
  ["thirty at once", 30],
])("five isolates with leases together grant the limit, plus at most one twentieth of it for each isolate: %s", async (_, atOnce) => {
  const { env, calls } = counting();
  const name = fresh("door");
  let passed = 0;
  let asked = 0;
  const isolates = Array.from({ length: 5 }, () => new Leases());
  for (const leases of isolates) {
    for (let part = 0; part < 90 / atOnce; part++) {
      const waits = await Promise.all(Array.from({ length: atOnce }, () => leases.spend(env, name, WINDOW)));
      passed += waits.filter((waitMs) => waitMs === 0).length;
      asked += waits.length;
    }
  }
  expect(asked).toBe(450);
  expect(passed).toBeLessThanOrEqual(200 + 5 * 10);
  expect(passed).toBeGreaterThanOrEqual(200 - 5 * 5);
  expect(calls.objects).toBeLessThan(asked / (atOnce === 1 ? 5 : 1));
});

it("a caller with a lease far below the limit makes no call to the limiter, and a refused caller makes no call until there is capacity", async () => {
  const { env, calls } = counting();
  const [leases, name] = [new Leases(), fresh("door")];
  for (let n = 0; n < 10; n++) expect(await leases.spend(env, name, WINDOW)).toBe(0);
  expect(calls.objects).toBe(0);
  while ((await leases.spend(env, name, WINDOW)) === 0);
  const before = calls.objects;
  for (let n = 0; n < 50; n++) expect(await leases.spend(env, name, WINDOW)).toBeGreaterThan(50_000);
  expect(calls.objects).toBe(before);
  expect(leases.refusedFor(name)).toBeGreaterThan(50_000);
  expect(leases.refusedFor(fresh("door"))).toBe(0);
});

it("a failing limiter blocks no caller with a lease", async () => {
  const leases = new Leases();
  const env = { RATE_LIMIT: { getByName: () => ({ lease: () => Promise.reject(new Error("no")) }) } } as unknown as Required<LimitEnv>;
  for (let n = 0; n < 300; n++) expect(await leases.spend(env, "door", WINDOW)).toBe(0);
});
