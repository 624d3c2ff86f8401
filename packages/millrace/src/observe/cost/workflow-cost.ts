import * as z from "zod";
import type { StepMode } from "../../contract/step-mode.ts";
import { KEEPER_MONTH, MONTH_DAYS, recorderMonth } from "./fixed.ts";
import { addUsage, marginalUsd, monthlyBill, OPERATIONS_PER_RETRY, rounded, splitUsd, timesUsage } from "./formula.ts";
import { usageOfCode } from "./from-code.ts";
import { COST_PARTS, type Cost } from "./instance-cost.ts";
import { PRICES_DATE, type Usage } from "./prices.ts";

const Amounts = z.record(z.string(), z.number());

/** The cost of a workflow. */
export const WorkflowCost = z
  .object({
    workflow: z.string(),
    basis: z.enum(["runs", "code", "nothing"]).meta({
      description:
        "`runs`: from its newest runs. `code`: no run was observed; a lower bound from the steps in the code, each once. `nothing`: the code names no step.",
    }),
    runs_seen: z.int().meta({ description: "The number of newest runs used, at most 25." }),
    runs: z
      .object({ hour: z.number(), day: z.number(), week: z.number() })
      .meta({ description: "Runs that ended in the last hour, day and week. Runs of the last minute may be missing." }),
    steps: z.object({ typical: z.number(), most: z.number() }).nullable().meta({ description: "The cost of one run, as observed." }),
    messages: z.number(),
    per_run: Amounts.meta({ description: "The average usage of a run, including the rows that its removal writes." }),
    usd_per_thousand_runs: z.number(),
    runs_per_month: z.number().meta({ description: "30 times the runs of the last day." }),
    usd_per_month: z.number().meta({ description: "List prices, without the included usage of the plan." }),
    usd_by: Amounts.meta({ description: "The monthly cost in dollars, by billed item." }),
  })
  .meta({ id: "WorkflowCost" });
export type WorkflowCost = z.infer<typeof WorkflowCost>;

/** The cost of each workflow, and the monthly cost of the deployment at the rate of the last day. */
export const Costs = z
  .object({
    prices_of: z.string().meta({ description: "The date of the list prices." }),
    workflows: z.array(WorkflowCost),
    fixed: Amounts.meta({
      description:
        "The monthly usage of the deployment without any run: an upper bound of object time, returned deliveries at the last day's rate, and the stored gigabytes.",
    }),
    month: z
      .object({
        usd: z.number().meta({ description: "The monthly cost, with the price of the plan and after the plan's included usage." }),
        plan_usd: z.number(),
        usd_by: Amounts.meta({ description: "Dollars beyond the quotas of the plan, by billed item." }),
        used: z.array(z.object({ of: z.string(), used: z.number(), included: z.number(), usd: z.number() })),
      })
      .meta({ description: "The whole deployment, if its account runs nothing else." }),
  })
  .meta({ id: "Costs" });
export type Costs = z.infer<typeof Costs>;

/** The text of a workflow's code, and its step mode. */
interface Code {
  readonly text: string;
  readonly mode: StepMode;
}

/** The cost of a workflow, computed from its runs, or from its code before the first run. */
export function workflowCost(workflow: string, code: Code, runs: WorkflowCost["runs"], seen: readonly Cost[]): WorkflowCost {
  const fromCode = seen.length === 0 ? usageOfCode(code.text, code.mode) : null;
  const per_run = seen.length > 0 ? meanUsage(seen) : (fromCode ?? {});
  const runs_per_month = runs.day * MONTH_DAYS;
  const steps = seen.map(({ parts }) => parts.steps.amount).sort((a, b) => a - b);
  const month = timesUsage(per_run, runs_per_month);
  return {
    workflow,
    basis: seen.length > 0 ? "runs" : fromCode ? "code" : "nothing",
    runs_seen: seen.length,
    runs,
    steps: steps.length === 0 ? null : { typical: steps[Math.floor((steps.length - 1) / 2)] ?? 0, most: steps.at(-1) ?? 0 },
    messages: seen.length === 0 ? 1 : mean(seen.map(({ messages }) => messages)),
    per_run,
    usd_per_thousand_runs: marginalUsd(per_run) * 1000,
    runs_per_month,
    usd_per_month: marginalUsd(month),
    usd_by: splitUsd(month),
  };
}

/** The monthly cost of a whole deployment: its workflows, its fixed usage, the returned deliveries of the last day, and its storage. */
export function deploymentCost(
  workflows: WorkflowCost[],
  recorders: number,
  { retriedADay, storedGb }: { retriedADay: number; storedGb: number },
): Costs {
  const runs = addUsage(...workflows.map(({ per_run, runs_per_month }) => timesUsage(per_run, runs_per_month)));
  const fixed = addUsage(KEEPER_MONTH, recorderMonth(runs.object_requests ?? 0, recorders), {
    d1_gb: storedGb,
    queue_operations: OPERATIONS_PER_RETRY * retriedADay * MONTH_DAYS,
  });
  return rounded({ prices_of: PRICES_DATE, workflows, fixed, month: monthlyBill(addUsage(runs, fixed)) });
}

function meanUsage(costs: readonly Cost[]): Usage {
  const usage: Usage = Object.fromEntries(COST_PARTS.map((part) => [part, mean(costs.map(({ parts }) => parts[part].amount))]));
  return addUsage(usage, { rows_written: mean(costs.map(({ removal_rows }) => removal_rows)) });
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
}
