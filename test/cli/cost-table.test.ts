import { expect, it } from "vitest";
import type { Costs } from "../../packages/millrace/cli/api-client.ts";
import { costTable } from "../../packages/millrace/cli/cost/table.ts";

const ran = {
  workflow: "publish-article",
  basis: "runs" as const,
  runs_seen: 25,
  runs: { hour: 40, day: 1000, week: 6000 },
  steps: { typical: 5, most: 9 },
  messages: 2,
  per_run: { steps: 5.4, rows_written: 21 },
  usd_per_thousand_runs: 0.0712,
  runs_per_month: 30_000,
  usd_per_month: 2.136,
  usd_by: {},
};
const costs: Costs = {
  prices_of: "2026-10",
  workflows: [
    { ...ran, workflow: "sync", runs: { hour: 0, day: 0, week: 0 }, basis: "code", runs_seen: 0, steps: null, usd_per_month: 0 },
    { ...ran, workflow: "silent", basis: "nothing", runs_seen: 0, steps: null, usd_per_month: 0 },
    ran,
  ],
  fixed: { d1_gb: 1.25 },
  month: { usd: 7.5, plan_usd: 5, usd_by: { steps: 2.5 }, used: [] },
};

it("a cost table has the most expensive item first, and marks an item without an instance", () => {
  expect(costTable(costs, undefined).split("\n")).toEqual([
    "workflow         runs a day         steps  rows  messages  $ per 1,000 runs  $ a month  by",
    "publish-article       1,000  5, at most 9    21         2             0.071       2.14  25 runs",
    "sync                      0         ≥ 5.4  ≥ 21         2             0.071       0.00  its code *",
    "silent                1,000                                                             not known **",
    "",
    "List prices of 2026-10, beyond the included usage of the plan; without CPU time, R2 and upstream charges.",
    "$ a month: at the rate of the last day.",
    "*  No run observed: each step in the code counts once; loops cost more. Run the workflow once, then repeat this command.",
    "** No run observed, and no step found in the code. Run the workflow once, then repeat this command.",
    "The whole deployment: $7.50 a month, of which the plan $5.00; beyond the included usage steps $2.50; 1.25 GB are stored.",
  ]);
});

it("a cost table before a deployment assumes the requested number of runs a month", () => {
  expect(costTable(costs, 1_000_000)).toMatch(/^publish-article.* 71\.20 {2}25 runs$/m);
  expect(costTable(costs, 1_000_000)).toContain("for 1,000,000 runs");
});
