import type { EngineEnv } from "../contract/bindings.ts";
import { crashPoint } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";
import { digest, formatEntryKey, parseEntryKey } from "../contract/ids.ts";
import { KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import { type PackedOutput, packOutput } from "../guard/output.ts";
import { nextGeneration } from "../recorder/inbox.ts";
import { batch } from "../store/retry.ts";
import { applyAction } from "./apply.ts";
import { applied, audit, type Operator } from "./audit.ts";

/**
 * A person's answer to a doubt.
 * `confirm`: it happened, with this output · `reject`: it did not happen, run it · `retry_anyway`: run it again as a new generation, knowing that it
 * may happen twice. If its run is over, or is being undone, nothing runs: the first two say what happened, the third is refused.
 */
export type Resolution = { verb: "confirm"; output: unknown } | { verb: "reject" } | { verb: "retry_anyway" };

/**
 * Resolves a doubt and wakes its instance. `confirm` also gives an output to an effect whose own could not be kept, and a better one to an
 * effect that a person had confirmed, once its instance has ended of that.
 * Errors: `effect_not_found`; `output_too_large` above 4 MiB; `invalid_transition` when the effect is not in doubt (any more), or nobody would run it again.
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
  const actionId = crypto.randomUUID();
  const found = await batch(env.DB, [
    sql`
      SELECT e.state, iif(i.undo IS NULL, i.status, 'being undone') AS status FROM inbox e JOIN instances i ON i.id = e.instance_id
      WHERE e.instance_id = ${instanceId} AND e.step = ${step} AND e.item = ${item} AND e.generation = ${generation}
        AND i.tenant_id = ${by.tenantId}`,
  ]);
  const [before] = found[0] ?? [];
  if (before === undefined) throw notFound();

  const path = `${by.tenantId}/${instanceId}/${digest("operator", actionId)}`;
  const output = await packOutput(env.PAYLOADS, path, resolution.verb === "confirm" ? resolution.output : undefined);
  const results = await batch(env.DB, [
    settle(key, resolution, output),
    audit(by, { id: actionId, verb: resolution.verb, target, instanceId, reason }, true),
    ...(resolution.verb === "retry_anyway" ? [nextGeneration(key)] : []),
    sql`
      UPDATE instances SET status = 'running', updated_at = ${now}, check_at = ${now} + ${KEEPER_PATIENCE_MS}
      WHERE id = ${instanceId} AND status = 'in_doubt'
        AND NOT EXISTS (SELECT 1 FROM inbox WHERE instance_id = ${instanceId} AND state = 'in_doubt')`,
    applied(actionId),
  ]);
  if (results.at(-1)?.[0]?.result !== "applied") {
    throw nothingToResolve(String(before.state), String(before.status), resolution);
  }
  await crashPoint("resolved, not told");
  await applyAction(env, actionId);
  return { actionId, instanceId };
}

function nothingToResolve(state: string, status: string, { verb }: Resolution): MillraceError {
  const why =
    state === "in_doubt" && verb === "retry_anyway"
      ? `Nobody would run the effect again: its instance is ${status}. Confirm it, or reject it, so that what happened is on record.`
      : `The effect is ${state}, not in doubt: there is nothing to resolve.`;
  return new MillraceError("invalid_transition", why, { from: state, to: verb });
}

type Key = NonNullable<ReturnType<typeof parseEntryKey>>;

/**
 * Moves the entry out of doubt. The epoch grows, so that an attempt which wakes up late is refused. A confirmed one is recorded by its
 * step's next attempt, together with the rows and messages that belong to it; where those were written with what a person had said before,
 * they stay.
 */
function settle({ instanceId, step, item, generation }: Key, resolution: Resolution, { output, outputRef }: PackedOutput): Statement {
  const state = resolution.verb === "confirm" ? "confirmed" : resolution.verb === "reject" ? "failed" : "superseded";
  return sql`
    UPDATE inbox SET state = iif(${WRITTEN_AS_GIVEN}, 'done', ${state}), output = ${output}, output_ref = ${outputRef}, error = NULL,
      epoch = epoch + 1, token = 'operator', lease_until = NULL, updated_at = ${now}
    WHERE instance_id = ${instanceId} AND step = ${step} AND item = ${item} AND generation = ${generation}
      AND ((state = 'in_doubt' AND (${resolution.verb} <> 'retry_anyway' OR NOT ${OVER}))
        OR (${resolution.verb} = 'confirm' AND (${OUTPUT_LOST} OR (${GIVEN} AND ${ENDED}))))`;
}

const OUTPUT_LOST = fragment("(state = 'done' AND output IS NULL AND output_ref IS NULL AND error IS NOT NULL)");
const WRITTEN_AS_GIVEN = fragment("(state = 'done' AND token = 'operator')");
const GIVEN = fragment(`(state = 'confirmed' OR ${WRITTEN_AS_GIVEN.fragment})`);
/** While its instance runs, the first answer holds: a second click changes nothing. */
const ENDED = fragment(
  "EXISTS (SELECT 1 FROM instances WHERE instances.id = inbox.instance_id AND instances.status IN ('errored', 'terminated'))",
);

/** Nobody would run an effect of it again: no operator's retry can begin another run, or it is being undone. */
const OVER = fragment(`EXISTS (SELECT 1 FROM instances i
    WHERE i.id = inbox.instance_id AND (i.status IN ('complete', 'skipped') OR (i.undo IS NOT NULL AND inbox.position >= 0)))`);

function notFound(): MillraceError {
  return new MillraceError("effect_not_found", "There is no such effect. List those in doubt with GET /v1/effects?state=in_doubt.");
}
