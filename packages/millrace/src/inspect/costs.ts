import type { EngineEnv } from "../contract/bindings.ts";
import { cellsOf, inCell } from "../contract/cells.ts";
import { shardsOf } from "../contract/recorder-name.ts";
import { sql } from "../contract/sql.ts";
import { rounded } from "../observe/cost/formula.ts";
import { type Cost, instanceCost } from "../observe/cost/instance-cost.ts";
import { storedUse } from "../observe/cost/stored.ts";
import { type Costs, deploymentCost, workflowCost } from "../observe/cost/workflow-cost.ts";
import { labelValues, tallyIn } from "../observe/metrics/tally.ts";
import { SPAN_MS, type Span, selectCountsBetween } from "../store/counts.ts";
import { query } from "../store/d1/retry.ts";
import { ENDED } from "../store/instances/status.ts";
import type { Catalog } from "../topology/catalog.ts";

/** Undefined for a removed instance. */
export async function costOfInstance(env: EngineEnv, id: string): Promise<Cost | undefined> {
  const [use] = await storedUse(env, [id]);
  return use && rounded(instanceCost(use));
}

/** Maximum number of the deployment's newest runs that are read. Of these runs, at most `RECKONED` per workflow are priced. */
const LOOKED_AT = 2000;
const RECKONED = 25;

/** Costs by the newest runs of all tenants and the counts of the last day. The result contains no tenant's name. */
export async function costsOfDeployment(given: EngineEnv, { workflows: known }: Pick<Catalog, "workflows">): Promise<Costs> {
  // The first cell has the counts of all cells.
  const env = inCell(given);
  const cells = cellsOf(env);
  const [uses, hour, day, week, stored] = await Promise.all([
    Promise.all(cells.map(async (cell) => storedUse(cell, await newestRuns(cell)))),
    countedSince(env, "minute", SPAN_MS.hour),
    countedSince(env, "hour", 24 * SPAN_MS.hour),
    countedSince(env, "hour", 7 * 24 * SPAN_MS.hour),
    Promise.all(cells.map(sizeGb)),
  ]);
  const costs = Map.groupBy(uses.flat(), ({ workflow }) => workflow);
  const workflows = known.map(({ name, run, steps: mode = "platform" }) => {
    const rate = { hour: hour.ended.get(name) ?? 0, day: day.ended.get(name) ?? 0, week: week.ended.get(name) ?? 0 };
    return workflowCost(name, { text: String(run), mode }, rate, (costs.get(name) ?? []).slice(0, RECKONED).map(instanceCost));
  });
  const storedGb = stored.reduce((sum, one) => sum + one, 0);
  return deploymentCost(
    workflows,
    { keepers: cells.length, recorders: cells.length * shardsOf(env) },
    { retriedADay: day.retried, storedGb },
  );
}

/** The ids of the newest ended runs, with a limit per workflow. */
async function newestRuns({ DB }: EngineEnv): Promise<string[]> {
  const rows = await query<{ id: string; workflow: string }>(
    DB,
    sql`
      SELECT id, workflow FROM (SELECT id, workflow, status FROM millrace_instances ORDER BY rowid DESC LIMIT ${LOOKED_AT})
      WHERE status IN ${ENDED}`,
  );
  return [...Map.groupBy(rows, ({ workflow }) => workflow).values()].flatMap((runs) => runs.slice(0, RECKONED).map(({ id }) => id));
}

/** Ended runs by workflow, and deliveries that returned to their queues. The counts of the last minute may be missing. */
async function countedSince({ DB }: EngineEnv, span: Exclude<Span, "ever">, ms: number) {
  const now = Date.now();
  const rows = await query<{ body: string }>(DB, selectCountsBetween(span, now - ms, now + SPAN_MS[span]));
  const ended = new Map<string, number>();
  let retried = 0;
  for (const { body } of rows) {
    const { instances_ended_total = {}, queue_messages_retried_total = {} } = tallyIn(body);
    for (const count of Object.values(queue_messages_retried_total)) retried += Number(count);
    for (const [labels, count] of Object.entries(instances_ended_total)) {
      const [workflow = ""] = labelValues(labels);
      ended.set(workflow, (ended.get(workflow) ?? 0) + Number(count));
    }
  }
  return { ended, retried };
}

async function sizeGb({ DB }: EngineEnv): Promise<number> {
  const { meta } = await DB.prepare("SELECT 1").run();
  return (meta.size_after ?? 0) / 1e9;
}
