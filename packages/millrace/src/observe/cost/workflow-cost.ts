import * as z from "zod";
import type { StepMode } from "../../contract/step-names.ts";
import {
  addUsage,
  marginalUsd,
  monthlyBill,
  OPERATIONS_PER_RETRY,
  PRICES_DATE,
  rounded,
  splitUsd,
  timesUsage,
  type Usage,
} from "./formula.ts";
import { COST_PARTS, type Cost } from "./instance-cost.ts";
import { ROWS } from "./spending.ts";

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
  { keepers, recorders }: { keepers: number; recorders: number },
  { retriedADay, storedGb }: { retriedADay: number; storedGb: number },
): Costs {
  const runs = addUsage(...workflows.map(({ per_run, runs_per_month }) => timesUsage(per_run, runs_per_month)));
  const fixed = addUsage(timesUsage(KEEPER_MONTH, keepers), recorderMonth(runs.object_requests ?? 0, recorders), {
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

const MONTH_DAYS = 30;
const MONTH_SECONDS = MONTH_DAYS * 86_400;
/** The memory of a Durable Object, in GB. */
const OBJECT_GB = 0.125;
/** Maximum time for which a Durable Object stays in memory after its last call, in seconds. */
const AWAKE_SECONDS = 10;
/** Time between two rounds of the keeper, in seconds. */
const ROUND_SECONDS = 10;
/** How long a recorder gathers counts before it writes them, in seconds. */
const TALLY_SECONDS = 10;
/** Number of rows that the keeper writes for each minute that has counts. */
const SUM_ROWS = 3;

/**
 * Monthly usage of a deployment without runs. The usage comes from the keeper's rounds, which keep the keeper's Durable Object in memory.
 */
export const KEEPER_MONTH: Usage = {
  object_requests: MONTH_SECONDS / ROUND_SECONDS,
  object_gb_seconds: MONTH_SECONDS * OBJECT_GB,
};

/**
 * The recorders' monthly usage for the given number of calls, without the calls themselves. Each call keeps a recorder in memory for some
 * seconds, and each recorder is in memory for at most one month. Each recorder writes at most one row of counts per ten seconds, and the
 * keeper merges these rows.
 */
export function recorderMonth(calls: number, recorders: number): Usage {
  const awakeSeconds = Math.min(MONTH_SECONDS * recorders, calls * AWAKE_SECONDS);
  const sums = (Math.min(MONTH_SECONDS, awakeSeconds) / 60) * SUM_ROWS;
  return { object_gb_seconds: awakeSeconds * OBJECT_GB, rows_written: (awakeSeconds / TALLY_SECONDS) * 2 + sums };
}

/** For each kind of step in a workflow's code: the number of steps that the platform bills, of inbox entries, and of rows for waits. */
const KINDS = {
  read: { steps: 1, entries: 0, rows: 0 },
  sleep: { steps: 1, entries: 0, rows: 0 },
  effect: { steps: 1, entries: 1, rows: ROWS.recorded },
  commit: { steps: 1, entries: 1, rows: ROWS.recorded },
  waitFor: { steps: 2, entries: 0, rows: ROWS.waitAsked + ROWS.waitSlept + ROWS.signal },
  approve: { steps: 2, entries: 0, rows: ROWS.questionAsked + ROWS.questionAnswered },
} as const;

/** Matches a step's call such as `step.commit(…`, also after a bundler has renamed `step`. */
const CALL = new RegExp(`\\.(${Object.keys(KINDS).join("|")})\\(\\s*["'\`]`, "g");

/**
 * The minimum usage of a run, estimated from the text of the workflow's code. Each step in the text is counted once. Loops, steps in other
 * functions, and the app's own rows and messages are unknown before a run. In an inline workflow an effect or a commit is no platform step.
 * Returns null if the text contains no steps.
 */
function usageOfCode(code: string, mode: StepMode): (Usage & { readonly steps: number }) | null {
  const kinds = [...code.matchAll(CALL)].map(([, kind]) => KINDS[kind as keyof typeof KINDS]);
  if (kinds.length === 0) return null;
  const sum = (of: "steps" | "entries" | "rows") => kinds.reduce((total, kind) => total + kind[of], 0);
  const entries = sum("entries");
  const isInline = mode === "inline" && entries > 0;
  return {
    steps: sum("steps") - (isInline ? entries : 0),
    rows_written: ROWS.accepted + (entries > 0 ? ROWS.running : 0) + sum("rows") + ROWS.complete,
    queue_operations: 3,
    requests: 3,
    object_requests: entries + 1 + (isInline ? 1 : 0),
    log_lines: 2 + sum("steps"),
  };
}
