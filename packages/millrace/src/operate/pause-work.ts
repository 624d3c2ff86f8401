import * as z from "zod";
import type { Asker } from "../access/may-ask.ts";
import type { EngineEnv } from "../contract/bindings.ts";
import { cellsOf } from "../contract/cells.ts";
import { MillraceError } from "../contract/errors.ts";
import { unknownName } from "../contract/known-fields.ts";
import { sql } from "../contract/sql.ts";
import { countsOf } from "../inspect/workflows.ts";
import type { Action } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import { ON_ITS_WAY, UNSEEN } from "../store/instances/status.ts";
import { endPause, insertPause, type Pause, type PausedKind, pauseId, selectPauses } from "../store/pauses.ts";
import type { Catalog } from "../topology/catalog.ts";
import { act, invalid } from "./act.ts";
import { startBulk } from "./bulk/start.ts";
import { ActionPlan } from "./instances/plan.ts";

export interface Work {
  readonly kind: PausedKind;
  readonly name: string;
  /** False: the pause is only for the operator's tenant. */
  readonly allTenants: boolean;
}

export const PausePlan = ActionPlan.extend({
  running: z.int().meta({ description: "Instances of your tenant that run or wait, among the newest ones." }),
  waiting: z.int().meta({ description: "Instances of your tenant that have not started, among the newest ones." }),
}).meta({ id: "PausePlan" });

export const WorkPaused = z
  .object({
    action_id: z.string(),
    bulk_action_id: z.string().nullable().meta({ description: "The bulk action that pauses the running instances; null for none." }),
  })
  .meta({ id: "WorkPaused" });

export type PauseVerb = "pause" | "resume";

/** Dry run of a pause or a resume. Errors: as `actOnWork`. */
export async function planWork(env: EngineEnv, catalog: Catalog, by: Asker, verb: PauseVerb, work: Work, pausesRunning = false) {
  const pause = await find(env, catalog, by, verb, work);
  const counts = (await countsOf(env, by)).filter((one) => one[work.kind] === work.name);
  const count = (statuses: typeof UNSEEN) => counts.reduce((sum, one) => sum + (statuses.has(one.status) ? one.count : 0), 0);
  const running = pausesRunning ? "A bulk action pauses the running instances." : "Running instances continue.";
  return {
    ...{ refused: whyNot(verb, work, pause), from: null, note: null, effects: [] },
    consequence: verb === "resume" ? RESUMES : `${HOLDS} ${running} A command accepted less than two seconds before may still start.`,
    ...{ running: count(ON_ITS_WAY), waiting: count(UNSEEN) },
  };
}

const HOLDS = "Commands are accepted, and their instances do not start until the resume.";
const RESUMES = "The keeper starts the waiting instances in the order of their acceptance, at the rate of the platform.";

/**
 * Pauses a workflow or queue, so that no new instance starts, or resumes it. A pause with `pausesRunning` also pauses the tenant's running
 * instances by a bulk action. Errors: `invalid_payload` for an unknown name, and for a queue of events; `forbidden` for all tenants without
 * the scope `observe`; `invalid_transition`, audited as no change, if nothing would change. With `pausesRunning` the errors of `startBulk`
 * are added, after which nothing is paused.
 */
export async function actOnWork(
  env: EngineEnv,
  catalog: Catalog,
  by: Asker,
  verb: PauseVerb,
  work: Work,
  { reason, pausesRunning = false }: { readonly reason: string; readonly pausesRunning?: boolean },
): Promise<z.infer<typeof WorkPaused>> {
  const before = await find(env, catalog, by, verb, work);
  const { kind, name, allTenants } = work;
  const isPause = verb === "pause";
  // The bulk action starts first, so that nothing is paused if the bulk action is refused. The request can then be repeated.
  const bulk_action_id = isPause && pausesRunning && !before ? await pauseRunning(env, catalog, by, work, reason) : null;
  const id = idOf(by, work);
  const pause = { id, tenant_id: allTenants ? "" : by.tenantId, actor: by.actor, reason, cause: null };
  const [from, to] = isPause ? ["active", "paused"] : ["paused", "active"];
  const action: Action = {
    id: crypto.randomUUID(),
    verb,
    target: `${kind}/${name}`,
    instanceId: null,
    reason,
    detail: { all_tenants: allTenants },
    before: { state: from, ...(before && { by: before.actor, reason: before.reason }) },
    after: { state: to },
  };
  const change = isPause ? insertPause(pause) : endPause(id);
  // The other cells are changed first. If the request fails between two cells, the same request can be repeated.
  if (allTenants && whyNot(verb, work, before) === null) {
    for (const { DB } of cellsOf(env)) if (DB !== env.DB) await query(DB, change);
  }
  await act(env, by, action, {
    change,
    refused: () => ({ why: whyNot(verb, work, before), from: to, to }),
  });
  return { action_id: action.id, bulk_action_id };
}

/** Null if no such instance exists. Errors: as `startBulk`. */
async function pauseRunning(env: EngineEnv, catalog: Catalog, by: Asker, { kind, name }: Work, reason: string): Promise<string | null> {
  const rows = await query<{ id: string }>(
    env.DB,
    sql`
      SELECT id FROM millrace_instances INDEXED BY millrace_instances_to_check
      WHERE check_at IS NOT NULL AND tenant_id = ${by.tenantId} AND status IN ${ON_ITS_WAY} AND undo IS NULL
        AND ${kind === "workflow" ? sql`workflow` : sql`queue`} = ${name}`,
  );
  if (rows.length === 0) return null;
  const { id } = await startBulk(env, catalog, by, { verb: "pause", ids: rows.map(({ id }) => id), reason }, undefined);
  return id;
}

const idOf = ({ tenantId }: Asker, { kind, name, allTenants }: Work) => pauseId(kind, name, allTenants ? "" : tenantId);

/** Finds the pause that is in effect for a workflow or queue. A removed workflow or queue can still be resumed. */
async function find(env: EngineEnv, catalog: Catalog, by: Asker, verb: PauseVerb, work: Work): Promise<Pause | undefined> {
  if (work.allTenants && !by.scopes.includes("observe")) {
    throw new MillraceError("forbidden", "A pause for all tenants requires the scope `observe` too: use a token with both scopes.");
  }
  if (verb === "pause") assertKnown(catalog, work);
  const [pause] = await query<Pause>(env.DB, selectPauses([idOf(by, work)]));
  return pause;
}

function whyNot(verb: PauseVerb, { kind, name, allTenants }: Work, pause: Pause | undefined): string | null {
  const whose = allTenants ? "all tenants" : "your tenant";
  if (verb === "pause") return pause ? `The ${kind} "${name}" is paused already for ${whose}, by ${pause.actor}: ${pause.reason}` : null;
  return pause ? null : `The ${kind} "${name}" is not paused for ${whose}. GET /v1/workflows lists the current pauses.`;
}

function assertKnown({ workflows, consumers }: Catalog, { kind, name }: Work): void {
  const known = kind === "workflow" ? workflows.map((one) => one.name) : consumers.map((one) => one.queue.name);
  if (known.includes(name)) {
    if (kind === "workflow" || consumers.some((one) => one.queue.name === name && one.starts)) return;
    throw invalid("queue", "carries events: pause the workflows that its events start");
  }
  const issue = unknownName(kind === "workflow" ? "name" : "queue", name, known);
  throw new MillraceError("invalid_payload", `The ${kind} ${issue.message}.`, { issues: [issue] });
}
