import * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import { durationMs } from "../contract/duration.ts";
import { deployedVersions } from "../contract/params.ts";
import { queuesOf } from "../contract/queue.ts";
import { component, iso, listOf, timestamp } from "../contract/row.ts";
import { sql } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { GOING_ON, INSTANCE_STATUSES, type InstanceStatus, IS_INDEXED_AS_STOPPED, RUNS_NO_MORE } from "../store/instances/status.ts";
import { type Pause, type PausedKind, pauseId, selectPauses } from "../store/pauses.ts";
import type { Catalog } from "../topology/catalog.ts";

type AnyWorkflow = Catalog["workflows"][number];

/** Maximum number of the tenant's newest instances that counts of instances cover. */
const COUNTED_INSTANCES = 10_000;

export const Paused = component("Paused", {
  queue: z.string().nullable().describe("The paused queue; null if the workflow itself is paused."),
  all_tenants: z.boolean().describe("True if paused for all tenants, false if paused for your tenant."),
  by: z.string().describe("The actor who paused; `millrace` for a breaker."),
  reason: z.string(),
  since: timestamp,
  cause: z
    .nullable(z.string())
    .describe("The id of the cause of failures after which a breaker paused, see `GET /v1/instances/causes`; null for an operator."),
});

function pausedView(pause: Pause | undefined): z.infer<typeof Paused> | null {
  if (pause === undefined) return null;
  const { id, tenant_id, actor: by, reason, since, cause } = pause;
  const [kind, name = ""] = id.split("/");
  return { queue: kind === "queue" ? name : null, all_tenants: tenant_id === "", by, reason, since: iso(since), cause };
}

export const WorkflowState = component("WorkflowState", {
  name: z.string(),
  state: z.enum(["active", "paused"]),
  paused: Paused.nullable().describe("The pause of the workflow or of its queue; null while the workflow is active."),
  breaker: z
    .object({ failures: z.int(), within_seconds: z.number() })
    .nullable()
    .describe("The workflow is paused after this number of failures of one cause; null without a breaker."),
  counts: z
    .partialRecord(z.enum(INSTANCE_STATUSES), z.int())
    .describe(`Its instances by status, among the newest ${COUNTED_INSTANCES} instances of your tenant.`),
  versions: listOf({
    version: z.int(),
    deployed: z.boolean().describe("False if the deployed code lacks it: its instances make no step until it is back."),
    open: z.int().describe("Instances of your tenant that run, or that an operator can retry. At 0 the old function can go."),
  }).describe("Its versions, the highest first."),
});

type WorkflowState = z.infer<typeof WorkflowState>;

/** By name, with the tenant's pauses and counts. */
export async function listWorkflows(env: EngineEnv, catalog: Catalog, by: Operator): Promise<WorkflowState[]> {
  const workflows = catalog.workflows.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const pauses = await pausesOf(env, by, [...workflows.flatMap(thingsOf)]);
  const counts = Map.groupBy(await countsOf(env, by), ({ workflow }) => workflow);
  const opened = Map.groupBy(await openVersions(env, by), ({ workflow }) => workflow);
  return workflows.map((workflow) => {
    const { name, breaker } = workflow;
    const paused =
      thingsOf(workflow)
        .map(([kind, of]) => pauses(kind, of))
        .find((one) => one !== null) ?? null;
    const own: WorkflowState["counts"] = {};
    for (const { status, count } of counts.get(name) ?? []) own[status] = (own[status] ?? 0) + count;
    return {
      ...{ name, state: paused ? "paused" : "active", paused, counts: own },
      breaker: breaker ? { failures: breaker.failures, within_seconds: durationMs(breaker.within) / 1000 } : null,
      versions: versionsOf(workflow, opened.get(name) ?? []),
    };
  });
}

function versionsOf(workflow: AnyWorkflow, opened: Awaited<ReturnType<typeof openVersions>>): WorkflowState["versions"] {
  const deployed = deployedVersions(workflow);
  const all = new Set([...deployed, ...opened.map(({ version }) => version)]);
  return [...all]
    .toSorted((one, other) => other - one)
    .map((version) => {
      const { open } = opened.find((one) => one.version === version) ?? { open: 0 };
      return { version, deployed: deployed.includes(version), open };
    });
}

/** The tenant's open and retryable instances. Each index is read up to `COUNTED_INSTANCES` rows. */
function openVersions(env: EngineEnv, { tenantId }: Operator) {
  return query<{ workflow: string; version: number; open: number }>(
    env.DB,
    sql`
      SELECT workflow, version, count(*) AS open FROM (
        SELECT * FROM (SELECT workflow, version FROM millrace_instances INDEXED BY millrace_instances_to_check
          WHERE seen IN (0, 1) AND check_at IS NOT NULL AND tenant_id = ${tenantId} AND status IN ${GOING_ON} LIMIT ${COUNTED_INSTANCES})
        UNION ALL
        SELECT * FROM (SELECT workflow, version FROM millrace_instances INDEXED BY millrace_instances_stopped
          WHERE ${IS_INDEXED_AS_STOPPED} AND tenant_id = ${tenantId} AND status NOT IN ${RUNS_NO_MORE}
          LIMIT ${COUNTED_INSTANCES}))
      GROUP BY workflow, version`,
  );
}

type Thing = readonly [PausedKind, string];

function thingsOf({ name, on }: AnyWorkflow): Thing[] {
  return [["workflow", name], ...(on.kind === "command" ? queuesOf(on.queue).map((queue): Thing => ["queue", queue]) : [])];
}

/** A pause for all tenants takes precedence over a pause for the tenant alone. */
export async function pausesOf(
  env: EngineEnv,
  { tenantId }: Operator,
  things: readonly Thing[],
): Promise<(kind: PausedKind, name: string) => z.infer<typeof Paused> | null> {
  const ids = new Set(things.flatMap(([kind, name]) => [pauseId(kind, name, ""), pauseId(kind, name, tenantId)]));
  const found = new Map((await query<Pause>(env.DB, selectPauses([...ids]))).map((pause) => [pause.id, pause]));
  return (kind, name) => pausedView(found.get(pauseId(kind, name, "")) ?? found.get(pauseId(kind, name, tenantId)));
}

export function countsOf(env: EngineEnv, { tenantId }: Operator) {
  return query<{ workflow: string; queue: string | null; status: InstanceStatus; count: number }>(
    env.DB,
    sql`
      SELECT workflow, queue, status, count(*) AS count FROM (
        SELECT workflow, queue, status FROM millrace_instances INDEXED BY millrace_instances_by_time
        WHERE tenant_id = ${tenantId} ORDER BY accepted_at DESC, id DESC LIMIT ${COUNTED_INSTANCES})
      GROUP BY workflow, queue, status`,
  );
}
