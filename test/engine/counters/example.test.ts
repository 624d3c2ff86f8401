import { expect, it } from "vitest";
import { countSales, countView, seeSales } from "../../docs/examples/counter.ts";
import { fresh, probeEnv } from "../harness.ts";

it("the example of docs/counters.md counts an order once, also when a later batch repeats it", async () => {
  const env = probeEnv as unknown as Cloudflare.Env;
  expect(await countView(env, fresh("page"))).toBe(true);
  const before = (await seeSales(env)).cents;
  const [one, two, three] = [1, 2, 3].map((n) => ({ id: fresh("order"), cents: n * 100 }));
  expect(one && two && three && (await countSales(env, [one, two]))).toBe(2);
  expect(one && two && three && (await countSales(env, [two, three]))).toBe(1);
  const { cents, lastHour } = await seeSales(env);
  // The cached value is returned.
  expect(cents).toBe(before);
  expect(lastHour.at(-1)?.count).toBeLessThanOrEqual(600);
  expect(lastHour.reduce((sum, { count }) => sum + count, 0)).toBeGreaterThanOrEqual(600);
});
