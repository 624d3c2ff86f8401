import * as z from "zod";
import { iso, timestamp } from "../../contract/row.ts";
import { numberOf, quantile } from "./rates.ts";
import { ENGINE_STEPS } from "./runs.ts";
import { labelValues, type Tally } from "./tally.ts";

const seconds = (description: string) => z.number().nullable().meta({ description });

/** The ended runs and the step attempts of one workflow in one period. */
export const PeriodOfWorkflow = z
  .object({
    at: timestamp.meta({ description: "The start of the minute or hour." }),
    workflow: z.string(),
    ended: z.record(z.string(), z.int()).meta({ description: "Ended runs by status." }),
    attempts: z.int().meta({ description: "Measured attempts at steps, without the engine's own steps." }),
    step_p50_seconds: seconds("The median duration of these attempts."),
    step_p99_seconds: seconds("The 99th percentile of their durations."),
  })
  .meta({ id: "PeriodOfWorkflow" });
type PeriodOfWorkflow = z.infer<typeof PeriodOfWorkflow>;

/** The counts of each workflow in each period, newest period first. */
export function workflowsByTime(periods: ReadonlyMap<number, Tally>): PeriodOfWorkflow[] {
  return [...periods].toSorted(([a], [b]) => b - a).flatMap(([at, tally]) => workflowsIn(at, tally));
}

function workflowsIn(at: number, { instances_ended_total = {}, step_duration_seconds = {} }: Tally): PeriodOfWorkflow[] {
  const ended = new Map<string, Record<string, number>>();
  for (const [labels, count] of Object.entries(instances_ended_total)) {
    const [workflow = "", status = ""] = labelValues(labels);
    const known = ended.get(workflow) ?? {};
    ended.set(workflow, { ...known, [status]: (known[status] ?? 0) + numberOf(count) });
  }
  const measured = new Map<string, number[]>();
  for (const [labels, counts] of Object.entries(step_duration_seconds)) {
    const [workflow = "", step] = labelValues(labels);
    if (step === ENGINE_STEPS || typeof counts === "number") continue;
    const known = measured.get(workflow);
    // Counts from a deployment with different buckets cannot be added to these counts.
    if (known === undefined || known.length === counts.length)
      measured.set(
        workflow,
        counts.map((count, place) => count + (known?.[place] ?? 0)),
      );
  }
  return [...new Set([...ended.keys(), ...measured.keys()])].sort().map((workflow) => {
    const counts = measured.get(workflow);
    const attempts = (counts ?? []).slice(0, -1).reduce((sum, one) => sum + one, 0);
    const of = (share: number) => (attempts === 0 ? null : quantile("step_duration_seconds", counts, share));
    return { at: iso(at), workflow, ended: ended.get(workflow) ?? {}, attempts, step_p50_seconds: of(0.5), step_p99_seconds: of(0.99) };
  });
}
