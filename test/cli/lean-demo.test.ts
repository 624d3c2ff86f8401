import { expect, it } from "vitest";
import { differences, type Went } from "../../packages/millrace/cli/demo/lean/table.ts";
import { tellDemo } from "./run-demo.ts";

it("the demo of lean steps shows one chain in both modes: the lean one bills less, and each thing happens once, through a kill too", async () => {
  const out = await tellDemo(["lean"]);
  expect(out.match(/kill -9 of process \d+, when \d+ calls had come outside/g)).toHaveLength(2);
  const [well = "", killed = ""] = out.split("12 orders, ").slice(1);
  // On a busy machine an answer may take longer than a pass waits for it, which is a step of the platform's then.
  expect(well).toMatch(/steps that the platform bills +48 +\d+\n/);
  expect(well).toMatch(/a million such runs, by the price list +\$\d\d\.\d\d +\$\d\d\.\d\d\n/);
  expect(well).toMatch(/from asked to done, the median +\d+ ms +\d+ ms\n/);
  expect(killed).toMatch(/effects, counted by key +36 +36\n/);
  expect(killed).toMatch(/effects that happened twice +0 +0\n/);
  expect(out).toMatch(/✓ Both modes did each thing once, through a kill too, in \d+\.\d s\./);
});

const call = (kind: string, order: string, key = `${kind[0]} of ${order}`) => ({ kind, order, key });
const run = (order: string, more: object = {}) => ({
  ...{ subject: order, status: "complete" as const, result: `booking ${call("bookings", order).key.slice(0, 8)}` },
  ...{ accepted_at: "2026-11-27T08:00:00.000Z", updated_at: "2026-11-27T08:00:01.000Z" },
  ...{ cost: { usd: 0, parts: { steps: { amount: 0 } } }, ...more },
});
const ORDERS = ["one", "two"];
const calls = ORDERS.flatMap((order) => ["reservations", "bookings", "mails"].map((kind) => call(kind, order)));
const went: Went = { runs: ORDERS.map((order) => run(order)), calls };

it("the demo of lean steps has no complaint of orders that each had all, also where a call came again under its key", () => {
  expect(differences(ORDERS, went)).toEqual([]);
  expect(differences(ORDERS, { ...went, calls: [...calls, ...calls] })).toEqual([]);
});

it.each<[string, Partial<Went>, string]>([
  ["a mail that went out twice", { calls: [...calls, call("mails", "two", "another")] }, "There are 2 mails of two instead of 1."],
  ["a courier that nobody booked", { calls: calls.filter(({ key }) => key !== "b of one") }, "There are 0 bookings of one instead of 1."],
  ["an order that nobody made", { calls: [...calls, call("mails", "three")] }, "There are 1 mails of three instead of 0."],
  ["a run that is nowhere", { runs: [run("one")] }, "The run of two is nowhere."],
  ["a run that failed", { runs: [run("one"), run("two", { status: "errored" })] }, "The run of two is errored."],
  ["a run that forgot its booking", { runs: [run("one"), run("two", { result: null })] }, "The run of two answered null"],
])("the demo of lean steps complains of %s", (_, wrong, complaint) => {
  expect(differences(ORDERS, { ...went, ...wrong }).join(" ")).toContain(complaint);
});
