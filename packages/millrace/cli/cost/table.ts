import type { Costs } from "../api-client.ts";
import { type Column, tableLines } from "../terminal.ts";

type WorkflowCost = Costs["workflows"][number];

const NUMBERS = ["runs a day", "steps", "rows", "messages", "$ per 1,000 runs", "$ a month"];
const COLUMNS: Column[] = [{ title: "workflow" }, ...NUMBERS.map((title) => ({ title, isNumber: true })), { title: "by" }];

const BASES = {
  runs: (seen: number) => `${seen} ${seen === 1 ? "run" : "runs"}`,
  code: () => "its code *",
  nothing: () => "not known **",
};

/** The cost of each workflow as a table. With `runs`, the costs are for this number of runs of each workflow per month. */
export function costTable({ workflows, month, fixed, prices_of }: Costs, runs: number | undefined): string {
  const rows = [...workflows]
    .sort((a, b) => monthly(b, runs) - monthly(a, runs) || b.runs_seen - a.runs_seen)
    .map((one) => rowOf(one, runs));
  const bases = new Set(workflows.map(({ basis }) => basis));
  return [
    ...tableLines(COLUMNS, rows),
    "",
    `List prices of ${prices_of}, beyond the included usage of the plan; without CPU time, R2 and upstream charges.`,
    ...(runs === undefined ? ["$ a month: at the rate of the last day."] : [`$ a month: for ${grouped(runs)} runs.`]),
    ...(bases.has("code")
      ? ["*  No run observed: each step in the code counts once; loops cost more. Run the workflow once, then repeat this command."]
      : []),
    ...(bases.has("nothing")
      ? ["** No run observed, and no step found in the code. Run the workflow once, then repeat this command."]
      : []),
    ...(runs === undefined ? [wholeMonth(month, fixed)] : []),
  ].join("\n");
}

function rowOf(one: WorkflowCost, runs: number | undefined): string[] {
  const { steps, per_run, basis } = one;
  const unknown = basis === "nothing";
  const stepsText =
    steps === null
      ? `≥ ${per_run.steps ?? 0}`
      : steps.most === steps.typical
        ? `${steps.typical}`
        : `${steps.typical}, at most ${steps.most}`;
  return [
    one.workflow,
    grouped(one.runs.day),
    unknown ? "" : stepsText,
    unknown ? "" : `${basis === "code" ? "≥ " : ""}${per_run.rows_written ?? 0}`,
    unknown ? "" : `${one.messages}`,
    unknown ? "" : one.usd_per_thousand_runs.toFixed(3),
    unknown ? "" : monthly(one, runs).toFixed(2),
    BASES[basis](one.runs_seen),
  ];
}

function monthly(one: WorkflowCost, runs: number | undefined): number {
  return runs === undefined ? one.usd_per_month : (one.usd_per_thousand_runs * runs) / 1000;
}

function wholeMonth({ usd, plan_usd, usd_by }: Costs["month"], fixed: Costs["fixed"]): string {
  const parts = Object.entries(usd_by).map(([of, dollars]) => `${of.replaceAll("_", " ")} $${dollars.toFixed(2)}`);
  const beyond = parts.length === 0 ? "all usage is included in the plan" : `beyond the included usage ${parts.join(", ")}`;
  const stored = `${(fixed.d1_gb ?? 0).toFixed(2)} GB are stored`;
  return `The whole deployment: $${usd.toFixed(2)} a month, of which the plan $${plan_usd.toFixed(2)}; ${beyond}; ${stored}.`;
}

function grouped(count: number): string {
  return count.toLocaleString("en-US");
}
