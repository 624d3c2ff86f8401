import type { EngineEnv } from "../../contract/bindings.ts";
import { MillraceError } from "../../contract/errors.ts";
import { digest, formatEntryKey, parseEntryKey } from "../../contract/ids.ts";
import { sql } from "../../contract/sql.ts";
import { packOutput } from "../../guard/output.ts";
import { type Action, actionIdOf, type Operator } from "../../store/actions.ts";
import { query } from "../../store/d1/retry.ts";
import { settleDoubt } from "../../store/inbox/doubts.ts";
import { nextGeneration } from "../../store/inbox/outcome.ts";
import { resumeResolved } from "../../store/instances/wait.ts";
import { actAndTell, type Refusal } from "../act.ts";

/**
 * A person's answer to a doubt.
 * `confirm`: it happened, with this output · `reject`: it did not happen, run it · `retry_anyway`: run it again as a new generation,
 * knowing that it may happen twice. If its run is over, or is being undone, nothing runs: the first two say what happened, the third is
 * refused.
 */
export type Resolution = { verb: "confirm"; output: unknown } | { verb: "reject" } | { verb: "retry_anyway" };

/**
 * Resolves a doubt and wakes its instance. `confirm` also gives an output to an effect whose own could not be kept, and a better one to an
 * effect that a person had confirmed, or skipped, once its instance has ended of that.
 * Errors: `effect_not_found`; `output_too_large` above 4 MiB; `invalid_transition` when the effect is not in doubt (any more), or nobody
 * would run it again.
 */
export async function resolveDoubt(
  env: EngineEnv,
  by: Operator,
  entryKey: string,
  resolution: Resolution,
  reason: string,
): Promise<{ actionId: string; instanceId: string }> {
  const key = parseEntryKey(entryKey);
  if (!key) throw notFound();
  const { instanceId, step, item, generation } = key;
  // As the engine writes it, because the run waits under that: base64 and JSON let one key be spelled in several ways.
  const target = formatEntryKey(key);
  const actionId = actionIdOf(by);
  const [before] = await query(
    env.DB,
    sql`
      SELECT e.state, iif(i.undo IS NULL, i.status, 'being undone') AS status FROM inbox e JOIN instances i ON i.id = e.instance_id
      WHERE e.instance_id = ${instanceId} AND e.step = ${step} AND e.item = ${item} AND e.generation = ${generation}
        AND i.tenant_id = ${by.tenantId}`,
  );
  if (before === undefined) throw notFound();

  const path = () => `${by.tenantId}/${instanceId}/${digest("operator", actionId)}`;
  const output = await packOutput(env.PAYLOADS, path, resolution.verb === "confirm" ? resolution.output : undefined);
  const changed = { before: { state: before.state }, after: { state: SETTLED[resolution.verb] } };
  const action: Action = { id: actionId, verb: resolution.verb, target, instanceId, reason, ...changed };
  await actAndTell(env, by, action, {
    change: settleDoubt(key, resolution.verb, output),
    also: { again: resolution.verb === "retry_anyway" ? nextGeneration(key) : [], resumed: resumeResolved(instanceId) },
    refused: () => nothingToResolve(String(before.state), String(before.status), resolution),
    window: "resolved, not told",
  });
  return { actionId, instanceId };
}

/** How an effect stands by what a person said, as the audit says it. */
const SETTLED: Record<Resolution["verb"], string> = { confirm: "confirmed", reject: "failed", retry_anyway: "superseded" };

function nothingToResolve(state: string, status: string, { verb }: Resolution): Refusal {
  const why =
    state === "in_doubt" && verb === "retry_anyway"
      ? `Nobody would run the effect again: its instance is ${status}. Confirm it, or reject it, so that what happened is on record.`
      : `The effect is ${state}, not in doubt: there is nothing to resolve.`;
  return { why, from: state, to: verb };
}

function notFound(): MillraceError {
  return new MillraceError("effect_not_found", "There is no such effect. List those in doubt with GET /v1/effects?state=in_doubt.");
}
