import { expect, it } from "vitest";
import { notHeeded } from "../../packages/millrace/cli/demo/lanes/carrier.ts";
import { outOfOrder } from "../../packages/millrace/cli/demo/lanes/kill.ts";
import { tellDemo } from "./run-demo.ts";

it("the demo of lanes shows order through a kill, a head that blocks, is parked, holds, a late holder refused, and a limit that a 429 narrows", async () => {
  const out = await tellDemo(["lanes"]);
  expect(out).toMatch(/kill -9 of process \d+, when the warehouse had heard \d+\.\n {2}Process \d+ goes on from the disk/);
  expect(out).toContain("400 are known by their keys, 20 are new.");
  expect(out).toMatch(/✓ 420 of 420 changes arrived, of all 10 orders in the order in which they were sent; \d+ arrived twice\./);
  expect(out).toMatch(/block .* 1 2✗ 2✗ 2✗ 2✗ 2✗.* 2 wait\. Its head has failed/);
  expect(out).toMatch(/park .* 1 2✗ 2✗ 2✗ 3 +0 wait\. It has gone on, and keeps 1 dead letter\./);
  expect(out).toMatch(/hold .* 1 2✗ 2✗ 2✗ +2 wait\. .* waits for a person: The warehouse answered 503\./);
  expect(out).toMatch(/park +1 2✗ 2✗ 2✗ 3 2\n/);
  expect(out).toContain("ann  wakes up, believes that she holds the lock, and writes: refused by the database.");
  expect(out).toMatch(/429, Retry-After: 1\n +0 +0 *\n/);
  expect(out).toMatch(/✓ .* all 14 callers slowed down, and \d+ s later call as often as before\./);
  expect(out).toContain("✓ Order, policies, fence and limit held, by the word of those outside");
});

const heard = (...steps: number[]) => steps.map((step) => ({ lane: "orders", id: `${step}`, order: "a", step, taken: true }));

it.each([
  ["a step that came before an earlier one", [1, 3, 2, 4]],
  ["a step that never came", [1, 2, 4]],
  ["an end that never came", [1, 2, 3]],
  ["a step that came twice without a kill behind it", [1, 2, 1, 2, 2, 3, 4]],
  ["a gap at the kill", [1, 4]],
  ["nothing at all", []],
])("the demo of lanes complains of %s", (_, steps) => {
  expect(outOfOrder(heard(...steps), ["a"], 4)).toEqual([`Of a the warehouse heard ${steps.join(" ")}.`]);
});

it("the demo of lanes has no complaint of an order that went on from its disk", () => {
  expect(outOfOrder(heard(1, 2, 3, 4), ["a"], 4)).toEqual([]);
  expect(outOfOrder(heard(1, 2, 3, 2, 3, 4), ["a"], 4)).toEqual([]);
});

/** Calls at these milliseconds; the carrier has had enough from 500 to 1,500. */
const called = (...times: number[]) => times.map((at, caller) => ({ caller, at, refused: at >= 500 && at < 1500 }));

it("the demo of lanes complains of callers that did not heed the 429", () => {
  const calls = (count: number, from: number, every: number) => Array.from({ length: count }, (_, at) => from + at * every);
  expect(notHeeded(called(0, 500, ...calls(40, 1500, 100)))).toEqual([]);
  expect(notHeeded(called(0))).toEqual(["No call was refused."]);
  expect(notHeeded(called(0, ...calls(14, 500, 70), ...calls(40, 1500, 100)))).toEqual([
    "14 calls were refused: the others did not hear of the first one's 429.",
  ]);
  expect(notHeeded(called(0, 500, ...calls(60, 1500, 70)))).toEqual([
    "In the 3 s after the pause 43 calls went: that is no half of the limit.",
  ]);
});
