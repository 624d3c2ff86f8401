import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { addUsage, marginalUsd, monthlyBill, PRICES, timesUsage } from "../../../packages/millrace/src/observe/cost/formula.ts";
import { instanceCost } from "../../../packages/millrace/src/observe/cost/instance-cost.ts";
import { KEEPER_MONTH, recorderMonth } from "../../../packages/millrace/src/observe/cost/workflow-cost.ts";
import { rowsOf } from "../markdown.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const page = readFileSync(join(ROOT, "docs/cost.md"), "utf8");

/** The instance on the page: two keyed effects and a commit, sent over HTTP. */
const run = instanceCost({
  id: "run",
  workflow: "three-steps",
  status: "complete",
  run: 1,
  deliveries: 1,
  queue: "commands",
  emitted: false,
  payloadByReference: false,
  hasDeadline: false,
  calls: false,
  tags: 0,
  isDelayed: false,
  spent: { 1: { steps: 3 } },
  classes: [
    { class: "keyed", entries: 2, done: 2, inDoubt: 0, epochs: 2, inline: 0, messages: 0, portions: 0 },
    { class: "commit", entries: 1, done: 1, inDoubt: 0, epochs: 1, inline: 0, messages: 0, portions: 0 },
  ],
  waits: { asked: 0, taken: 0, early: 0, over: 0 },
  questions: { asked: 0, answered: 0, over: 0 },
});
const parts = Object.entries(run.parts).map(([part, used]) => ({ part, ...used }));

it("the worked example of docs/cost.md equals the result of the formula for the same instance", () => {
  const shown = rowsOf(page, "part").map(([part = "", amount, mark, usd]) => [part.replaceAll("`", ""), Number(amount), mark, Number(usd)]);
  const said = parts.map(({ part, amount, mark, usd }) => [part, amount, mark, Number(usd.toFixed(12))]);
  expect(shown.sort()).toEqual(said.sort());
});

it("the formula of docs/cost.md uses the list prices of Cloudflare", () => {
  const formula = /^`(8e-6 × steps.*)`$/m.exec(page)?.[1] ?? "";
  const terms = formula.split(" + ").map((term) => term.split(" × "));
  const { steps, rows_written, rows_read, queue_operations, requests, object_requests, log_lines, cpu_ms } = PRICES;
  const prices = [steps, rows_written, rows_read, queue_operations, requests, object_requests, log_lines, cpu_ms];
  expect(terms.map(([price]) => Number(price))).toEqual(prices.map(({ usd }) => usd));
});

/** Bytes that an instance leaves in D1: an instance and its entries for a month, a tombstone for 400 days (docs/retention.md). */
const STORED = { month: 1202 + 3 * 143, tombstone: 39 * (400 / 30) };
const RECORDERS = 2;

it("the table by scale in docs/cost.md equals the computed bill of a month with that number of runs", () => {
  const used = Object.fromEntries(parts.map(({ part, amount }) => [part, amount]));
  const perRun = addUsage(used, { rows_written: run.removal_rows });
  for (const [runs = "", usd, perThousand, beyond] of rowsOf(page, "runs a month")) {
    const times = Number(runs.replaceAll(",", ""));
    const month = timesUsage(perRun, times);
    const stored = { d1_gb: (times * (STORED.month + STORED.tombstone)) / 1e9 };
    const bill = monthlyBill(addUsage(month, KEEPER_MONTH, recorderMonth(month.object_requests ?? 0, RECORDERS), stored));
    const parts = Object.entries(bill.usd_by).map(([priced, dollars]) => `${priced.replaceAll("_", " ")} ${dollars.toFixed(2)}`);
    expect([usd, perThousand, beyond]).toEqual([
      bill.usd.toFixed(2),
      ((bill.usd / times) * 1000).toFixed(3),
      parts.length === 0 ? "nothing" : parts.join(", "),
    ]);
  }
});

it("a month within the plan's usage costs only the plan's price, and further usage is charged", () => {
  expect(monthlyBill({ steps: 500_000 }).usd).toBe(5);
  expect(monthlyBill({ steps: 1_500_000 }).usd_by).toEqual({ steps: 8 });
  expect(marginalUsd({ steps: 1_000_000 })).toBe(8);
});
