import type { StepMode } from "../../contract/step-mode.ts";
import { KEEPER_MONTH, MONTH_DAYS, recorderMonth } from "./fixed.ts";
import { addUsage, type Bill, marginalUsd, monthlyBill, OPERATIONS_PER_RETRY, type Split, splitUsd, timesUsage } from "./formula.ts";
import { usageOfCode } from "./from-code.ts";
import { COST_PARTS, type Cost } from "./instance-cost.ts";
import type { Usage } from "./prices.ts";

/** The number of a workflow's runs that ended in the last hour, day and week. */
export interface Rate {
  readonly hour: number;
  readonly day: number;
  readonly week: number;
}

/** The cost of a workflow. */
export interface WorkflowCost {
  readonly workflow: string;
  /**
   * The source of the cost. `runs`: the newest runs of the workflow. `code`: the workflow has no runs, so the minimum usage is estimated
   * from its code. `nothing`: the workflow has no runs and no text of its code.
   */
  readonly basis: "runs" | "code" | "nothing";
  /** Number of runs from which the cost was computed. */
  readonly seen: number;
  readonly rate: Rate;
  /** Median and maximum number of steps per run. Null before the first run. */
  readonly steps: { readonly typical: number; readonly most: number } | null;
  readonly messages: number;
  /** Average usage per run, including the rows that the removal of the run's instance writes. */
  readonly perRun: Usage;
  readonly usdPerRun: number;
  /** Runs per month at the rate of the last day. */
  readonly runsPerMonth: number;
  readonly usdPerMonth: number;
  readonly split: Split;
}

/** The monthly cost of a deployment at the rate of the last day. */
export interface DeploymentCost {
  readonly workflows: readonly WorkflowCost[];
  /**
   * The usage that does not depend on runs: the time of Durable Objects in memory, reads for returned deliveries, and the present storage.
   */
  readonly fixed: Usage;
  readonly bill: Bill;
}

/** The text of a workflow's code, and its step mode. */
interface Code {
  readonly text: string;
  readonly mode: StepMode;
}

/** The cost of a workflow, computed from its runs, or from its code before the first run. */
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

/** The monthly cost of a whole deployment: its workflows, its fixed usage, the returned deliveries of the last day, and its storage. */
export function deploymentCost(
  workflows: readonly WorkflowCost[],
  recorders: number,
  { retriedADay, storedGb }: { retriedADay: number; storedGb: number },
): DeploymentCost {
  const runs = addUsage(...workflows.map(({ perRun, runsPerMonth }) => timesUsage(perRun, runsPerMonth)));
  const fixed = addUsage(KEEPER_MONTH, recorderMonth(runs.objectRequests ?? 0, recorders), {
    d1Gb: storedGb,
    queueOperations: OPERATIONS_PER_RETRY * retriedADay * MONTH_DAYS,
  });
  return { workflows, fixed, bill: monthlyBill(addUsage(runs, fixed)) };
}

function meanUsage(costs: readonly Cost[]): Usage {
  const usage: Usage = Object.fromEntries(COST_PARTS.map((part) => [part, mean(costs.map(({ parts }) => parts[part].amount))]));
  return addUsage(usage, { rowsWritten: mean(costs.map(({ removalRows }) => removalRows)) });
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
}
