import type { StepMode } from "../../contract/step-mode.ts";
import { KEEPER_MONTH, MONTH_DAYS, recorderMonth } from "./fixed.ts";
import { addUsage, type Bill, marginalUsd, monthlyBill, type Split, splitUsd, timesUsage } from "./formula.ts";
import { usageOfCode } from "./from-code.ts";
import { COST_PARTS, type Cost } from "./instance-cost.ts";
import type { Usage } from "./prices.ts";

/** Runs of a workflow that ended in the last hour, day and week. */
export interface Rate {
  readonly hour: number;
  readonly day: number;
  readonly week: number;
}

/** What a workflow costs. */
export interface WorkflowCost {
  readonly workflow: string;
  /** `runs`: by what its newest runs used. `code`: none was seen; at least what its code names, each step once. `nothing`: not even that. */
  readonly basis: "runs" | "code" | "nothing";
  /** How many of its runs were looked at. */
  readonly seen: number;
  readonly rate: Rate;
  /** Steps of a run, as seen: that of the middle, and the most. Null before the first run. */
  readonly steps: { readonly typical: number; readonly most: number } | null;
  readonly messages: number;
  /** What a run uses, on average; with it what its removal will write. */
  readonly perRun: Usage;
  readonly usdPerRun: number;
  /** At the rate of the last day. */
  readonly runsPerMonth: number;
  readonly usdPerMonth: number;
  readonly split: Split;
}

/** What a deployment costs a month, at the rate of the last day. */
export interface DeploymentCost {
  readonly workflows: readonly WorkflowCost[];
  /** What it uses without any run, the time of its objects, and what it stores now. */
  readonly fixed: Usage;
  readonly bill: Bill;
}

/** The text of a workflow's code, and how its steps are taken. */
interface Code {
  readonly text: string;
  readonly mode: StepMode;
}

/** What a workflow costs by its runs, or where none was seen by its code. */
export function workflowCost(workflow: string, code: Code, rate: Rate, seen: readonly Cost[]): WorkflowCost {
  const fromCode = seen.length === 0 ? usageOfCode(code.text, code.mode) : null;
  const perRun = seen.length > 0 ? meanUsage(seen) : (fromCode ?? {});
  const runsPerMonth = rate.day * MONTH_DAYS;
  const steps = seen.map(({ parts }) => parts.steps.amount).sort((a, b) => a - b);
  const month = timesUsage(perRun, runsPerMonth);
  return {
    workflow,
    basis: seen.length > 0 ? "runs" : fromCode ? "code" : "nothing",
    seen: seen.length,
    rate,
    steps: steps.length === 0 ? null : { typical: steps[Math.floor((steps.length - 1) / 2)] ?? 0, most: steps.at(-1) ?? 0 },
    messages: seen.length === 0 ? 1 : mean(seen.map(({ messages }) => messages)),
    perRun,
    usdPerRun: marginalUsd(perRun),
    runsPerMonth,
    usdPerMonth: marginalUsd(month),
    split: splitUsd(month),
  };
}

/** The month of a whole deployment: what its workflows use, what runs without them, and what is stored. */
export function deploymentCost(workflows: readonly WorkflowCost[], recorders: number, storedGb: number): DeploymentCost {
  const runs = addUsage(...workflows.map(({ perRun, runsPerMonth }) => timesUsage(perRun, runsPerMonth)));
  const fixed = addUsage(KEEPER_MONTH, recorderMonth(runs.objectRequests ?? 0, recorders), { d1Gb: storedGb });
  return { workflows, fixed, bill: monthlyBill(addUsage(runs, fixed)) };
}

function meanUsage(costs: readonly Cost[]): Usage {
  const usage: Usage = Object.fromEntries(COST_PARTS.map((part) => [part, mean(costs.map(({ parts }) => parts[part].amount))]));
  return addUsage(usage, { rowsWritten: mean(costs.map(({ removalRows }) => removalRows)) });
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
}
