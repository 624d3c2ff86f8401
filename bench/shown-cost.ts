import { instances } from "millrace/operate";
import { instanceCost } from "../packages/millrace/src/observe/cost/instance-cost.ts";
import { storedUse } from "../packages/millrace/src/observe/cost/stored.ts";
import type { BenchEnv } from "./runs.ts";

/**
 * The total cost that the engine reports for the newest instances, and the number of steps that the platform reports for these instances.
 */
export async function shownCost(env: BenchEnv, count: number) {
  const { results } = await env.DB.prepare("SELECT id, workflow FROM millrace_instances ORDER BY rowid DESC LIMIT ?1")
    .bind(count)
    .all<{ id: string; workflow: string }>();
  const ids = results.map(({ id }) => id);
  const costs = (await storedUse(env, ids)).map(instanceCost);
  const histories = await Promise.all(results.map((one) => instances.history(env, one)));
  const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);
  const shown = (part: keyof (typeof costs)[number]["parts"]) => sum(costs.map(({ parts }) => parts[part].amount));
  return {
    rows_written: shown("rows_written"),
    rows_read: shown("rows_read"),
    steps: shown("steps"),
    queue_operations: shown("queue_operations"),
    requests: shown("requests"),
    object_requests: shown("object_requests"),
    stepsOnPlatform: sum(histories.map(({ steps }) => steps.length)),
  };
}
