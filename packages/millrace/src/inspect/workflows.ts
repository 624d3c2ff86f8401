import type { EngineEnv } from "../contract/bindings.ts";
import { queuesOf } from "../contract/queue.ts";
import { sql } from "../contract/sql.ts";
import { deployedVersions } from "../contract/workflow-versions.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { GOING_ON, type InstanceStatus, IS_INDEXED_AS_STOPPED, RUNS_NO_MORE } from "../store/instances/status.ts";
import { type Pause, type PausedKind, pauseId, selectPauses } from "../store/pauses.ts";
import type { Catalog } from "../topology/catalog.ts";

type AnyWorkflow = Catalog["workflows"][number];

/** Maximum number of the tenant's newest instances that counts of instances cover. */
export const COUNTED_INSTANCES = 10_000;

/** A workflow of the catalog, with its pause and its instances by status. */
export interface WorkflowState {
  readonly workflow: AnyWorkflow;
  /** The pause of the workflow or of its queue. */
  readonly pause: Pause | undefined;
  readonly counts: Readonly<Partial<Record<InstanceStatus, number>>>;
  /** The versions that the deployed code has or that open instances run, the highest version first. */
  readonly versions: readonly VersionState[];
}

/** A version of a workflow. */
export interface VersionState {
  readonly version: number;
  /** True if the deployed code has a function of this version. */
  readonly deployed: boolean;
  /** The number of the tenant's instances of this version that can still run: open and retryable instances. */
  readonly open: number;
}

/** The workflows of the deployment by name, with the tenant's pauses and counts. */
export async function listWorkflows(env: EngineEnv, catalog: Catalog, by: Operator): Promise<WorkflowState[]> {
  const workflows = catalog.workflows.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  const pauses = await pausesOf(env, by, [...workflows.flatMap(thingsOf)]);
  const counts = Map.groupBy(await countsOf(env, by), ({ workflow }) => workflow);
  const opened = Map.groupBy(await openVersions(env, by), ({ workflow }) => workflow);
  return workflows.map((workflow) => {
    const [pause] = thingsOf(workflow).flatMap(([kind, name]) => pauses(kind, name) ?? []);
    const own: Partial<Record<InstanceStatus, number>> = {};
    for (const { status, count } of counts.get(workflow.name) ?? []) own[status] = (own[status] ?? 0) + count;
    return { workflow, pause, counts: own, versions: versionsOf(workflow, opened.get(workflow.name) ?? []) };
  });
}

interface Opened extends Record<string, unknown> {
  readonly workflow: string;
  readonly version: number;
  readonly open: number;
}

function versionsOf(workflow: AnyWorkflow, opened: readonly Opened[]): VersionState[] {
  const deployed = deployedVersions(workflow);
  const all = new Set([...deployed, ...opened.map(({ version }) => version)]);
  return [...all]
    .toSorted((one, other) => other - one)
    .map((version) => ({
      version,
      deployed: deployed.includes(version),
      open: opened.filter((one) => one.version === version).reduce((sum, { open }) => sum + open, 0),
    }));
}

/** The tenant's open and retryable instances, counted by workflow and version. Each index is read up to `COUNTED_INSTANCES` rows. */
function openVersions(env: EngineEnv, { tenantId }: Operator): Promise<Opened[]> {
  return query<Opened>(
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

/**
 * Returns a function that finds the pause of a workflow or queue. A pause for all tenants takes precedence over a pause for the tenant
 * alone.
 */
export async function pausesOf(
  env: EngineEnv,
  { tenantId }: Operator,
  things: readonly Thing[],
): Promise<(kind: PausedKind, name: string) => Pause | undefined> {
  const ids = new Set(things.flatMap(([kind, name]) => [pauseId(kind, name, ""), pauseId(kind, name, tenantId)]));
  const found = new Map((await query<Pause & Record<string, unknown>>(env.DB, selectPauses([...ids]))).map((pause) => [pause.id, pause]));
  return (kind, name) => found.get(pauseId(kind, name, "")) ?? found.get(pauseId(kind, name, tenantId));
}

interface Counted extends Record<string, unknown> {
  readonly workflow: string;
  readonly queue: string | null;
  readonly status: InstanceStatus;
  readonly count: number;
}

/** The tenant's newest instances, counted by workflow, queue and status. */
export function countsOf(env: EngineEnv, { tenantId }: Operator): Promise<Counted[]> {
  return query<Counted>(
    env.DB,
    sql`
      SELECT workflow, queue, status, count(*) AS count FROM (
        SELECT workflow, queue, status FROM millrace_instances INDEXED BY millrace_instances_by_time
        WHERE tenant_id = ${tenantId} ORDER BY accepted_at DESC, id DESC LIMIT ${COUNTED_INSTANCES})
      GROUP BY workflow, queue, status`,
  );
}
