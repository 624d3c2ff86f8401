import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";
import { KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { now, sql } from "../contract/sql.ts";
import { FRESH_MS } from "../guard/fresh.ts";
import { forgetFailures, markInDoubt } from "../recorder/inbox.ts";
import { forgetTold, reopenWait } from "../signals/wait.ts";
import { batch } from "../store/retry.ts";
import { applyAction } from "./apply.ts";
import { applied, audit, type Operator } from "./audit.ts";
import { effectsOf, getInstance, type Instance } from "./instances.ts";

/** What a retry would do with each guarded effect. */
export interface RetryPlan {
  from: string | null;
  effects: { step: string; item: string; verdict: "kept" | "runs" | "in_doubt" }[];
}

/** Says what a retry would do, and does nothing. Errors: `instance_not_found`. */
export async function planRetry(env: EngineEnv, by: Operator, instanceId: string, from?: string): Promise<RetryPlan> {
  const instance = await getInstance(env, by, instanceId);
  const start = startOf(instance, from);
  const goesOnUndoing = instance.undo !== null && !isUndone(instance);
  const effects = (await effectsOf(env, by, instanceId))
    .filter(({ state, undo }) => state !== "superseded" && (undo === "is") === goesOnUndoing)
    .map(({ step, item, state }) => ({ step, item, verdict: VERDICTS[state] ?? "runs" }));
  // A step that failed before it recorded anything has no entry yet: it is the one that runs.
  const listed = effects.some(({ step, item }) => start === (item ? `${step} [${item}]` : step));
  return { from: start, effects: start === null || listed ? effects : [...effects, { step: start, item: "", verdict: "runs" }] };
}

const VERDICTS: Record<string, RetryPlan["effects"][number]["verdict"]> = { done: "kept", confirmed: "kept", in_doubt: "in_doubt" };

/**
 * Retries an errored or terminated instance from the step that failed, or from another. Recorded effects are kept, whatever step it starts from.
 * One whose undo failed goes on with the undo; one that is undone starts from its beginning, and does again what was taken back.
 * Errors: `instance_not_found`, `invalid_transition` (audited as no change) when the instance is not stopped.
 */
export async function retryInstance(
  env: EngineEnv,
  by: Operator,
  instanceId: string,
  options: { from?: string | undefined; reason: string },
): Promise<{ actionId: string; from: string | null }> {
  const instance = await getInstance(env, by, instanceId);
  const from = startOf(instance, options.from);
  const run = instance.run + 1;
  // Its first pass must look at what was taken back, which a pass of an instance that was created a moment ago does not.
  if (isUndone(instance)) await scheduler.wait(Math.max(0, instance.updatedAt + FRESH_MS + 100 - Date.now()));
  const actionId = crypto.randomUUID();
  const results = await batch(env.DB, [
    sql`
      UPDATE instances SET status = 'running', run = ${run}, error = NULL, undo = iif(status = 'terminated', NULL, undo),
        updated_at = ${now}, check_at = ${now} + ${KEEPER_PATIENCE_MS}
      WHERE id = ${instanceId} AND tenant_id = ${by.tenantId} AND status IN ('errored', 'terminated') AND run < ${run}`,
    audit(
      by,
      {
        id: actionId,
        verb: "retry",
        target: instanceId,
        instanceId,
        reason: options.reason,
        detail: { from, run, ...(isUndone(instance) && { undone: true }) },
      },
      true,
    ),
    forgetFailures(instanceId, from, actionId),
    reopenWait(instanceId, from, actionId),
    forgetTold(instanceId, actionId),
    markInDoubt(instanceId),
    applied(actionId),
  ]);
  if (results.at(-1)?.[0]?.result !== "applied") {
    throw new MillraceError("invalid_transition", `The instance is ${instance.status}: only an errored or terminated one can be retried.`, {
      from: instance.status,
      to: "running",
    });
  }
  await crashPoint("retry promised, not applied");
  await applyAction(env, actionId);
  return { actionId, from };
}

/** The platform remembers the results of what was taken back: an undone instance starts from its beginning whatever is asked for. */
function startOf(instance: Instance, from: string | undefined): string | null {
  return isUndone(instance) ? null : (from ?? (instance.error?.step || null));
}

function isUndone({ status, undo }: Instance): boolean {
  return status === "terminated" && undo !== null;
}
