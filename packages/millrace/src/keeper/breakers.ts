import type { EngineEnv } from "../contract/bindings.ts";
import { durationMs } from "../contract/duration.ts";
import { now, type Statement, sql } from "../contract/sql.ts";
import { act } from "../operate/act.ts";
import { atomically } from "../store/d1/retry.ts";
import { MAX_COUNTED } from "../store/health.ts";
import { insertPause, pauseId, pauseOf } from "../store/pauses.ts";
import type { Catalog } from "../topology/catalog.ts";

/** The name that the audit records as the actor when the engine itself pauses a workflow. */
const ENGINE = "millrace";

interface Tripped {
  readonly tenant_id: string;
  readonly workflow: string;
  readonly cause: string;
  readonly failures: number;
  readonly within: string;
  readonly code: string | null;
  readonly step: string | null;
}

/**
 * Pauses a workflow for a tenant after too many instances failed with the same cause. The function counts the newest failures since the
 * last resume of the workflow, for the tenant or for all tenants. A tenant's failures never pause the workflow for a different tenant.
 * Returns the number of pauses.
 */
export async function tripBreakers(env: EngineEnv, workflows: Catalog["workflows"]): Promise<number> {
  const breakers = workflows.flatMap(({ name, breaker }) => (breaker ? [selectTripped(name, breaker)] : []));
  const tripped = (await atomically(env.DB, breakers)).flat() as unknown as Tripped[];
  let pauses = 0;
  for (const { tenant_id, workflow, cause, failures, within, code, step } of tripped) {
    const at = step ? ` at the step "${step}"` : "";
    const reason = `The breaker counted ${failures} failures within ${within} with the cause ${cause}: ${code ?? "unknown"}${at}.`;
    const id = pauseId("workflow", workflow, tenant_id);
    const by = { tenantId: tenant_id, actor: ENGINE };
    const target = `workflow/${workflow}`;
    const action = { id: crypto.randomUUID(), verb: "pause", target, instanceId: null, reason, detail: { cause, failures } };
    const states = { before: { state: "active" }, after: { state: "paused" } };
    const change = insertPause({ id, tenant_id, actor: ENGINE, reason, cause });
    if ((await act(env, by, { ...action, ...states }, { change })).isApplied) pauses += 1;
  }
  return pauses;
}

/** The tenants and causes with too many failures of a workflow. The statement reads the workflow's newest failures within the time. */
function selectTripped(workflow: string, { failures, within }: NonNullable<Catalog["workflows"][number]["breaker"]>): Statement {
  return sql`
    SELECT told.*, ${typeof within === "number" ? `${within} ms` : within} AS within, c.code, c.step FROM (
      SELECT given.tenant_id, ${workflow} AS workflow, given.cause, count(*) AS failures
      FROM (
        SELECT tenant_id, cause, updated_at FROM millrace_instances INDEXED BY millrace_instances_errored_by_workflow
        WHERE status = 'errored' AND workflow = ${workflow} AND updated_at > ${now} - ${durationMs(within)} AND cause IS NOT NULL
        ORDER BY updated_at DESC LIMIT ${MAX_COUNTED}) given
      WHERE given.updated_at > coalesce((SELECT max(p.resumed_at) FROM millrace_pauses p
        WHERE p.id IN (${pauseId("workflow", workflow, "")}, ${pauseId("workflow", workflow, "")} || given.tenant_id)), 0)
      GROUP BY given.tenant_id, given.cause HAVING count(*) >= ${failures}) told
    LEFT JOIN millrace_causes c ON c.tenant_id = told.tenant_id AND c.kind = 'instance' AND c.id = told.cause
    WHERE ${pauseOf("1", { workflow: "told.workflow", queue: "NULL", tenant: "told.tenant_id" })} IS NULL`;
}
