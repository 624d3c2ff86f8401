import { refuseArchived } from "../../archive/read.ts";
import type { EngineEnv } from "../../contract/bindings.ts";
import { MillraceError } from "../../contract/errors.ts";
import { digest, type EntryKey, formatEntryKey, parseEntryKey } from "../../contract/ids.ts";
import { sql } from "../../contract/sql.ts";
import { packOutput } from "../../guard/output.ts";
import { type Action, actionIdOf, type Operator } from "../../store/actions.ts";
import { stoodAtBegin } from "../../store/bulk-actions.ts";
import { query } from "../../store/d1/retry.ts";
import { nobodyRuns, settleDoubt } from "../../store/inbox/doubts.ts";
import { nextGeneration } from "../../store/inbox/outcome.ts";
import { resumeResolved } from "../../store/instances/wait.ts";
import { act } from "../act.ts";

/**
 * An operator's decision on an unknown outcome. `confirm`: the effect happened, with this output · `reject`: the effect did not happen, so
 * the run executes the effect · `retry_anyway`: the run executes the effect again as a new generation, so the effect may happen twice. If
 * the run has ended or is being undone, no effect is executed. Then `confirm` and `reject` record the outcome, and `retry_anyway` is
 * refused.
 */
export type Resolution = { verb: "confirm"; output: unknown } | { verb: "reject" } | { verb: "retry_anyway" };

/**
 * Resolves the unknown outcome of an effect and continues the effect's instance. `confirm` also supplies an output that could not be
 * stored. If the instance failed because of an output that an operator gave for an effect, `confirm` also replaces this output. Errors:
 * `effect_not_found`; `output_too_large` above 4 MiB; `invalid_transition` if the effect is not in doubt, or no run would execute the
 * effect again.
 */
export async function resolveDoubt(env: EngineEnv, by: Operator, entryKey: string, resolution: Resolution, reason: string) {
  const key = parseEntryKey(entryKey);
  if (!key) throw notFound();
  const { instanceId } = key;
  // The canonical form of the key, because base64 and JSON allow several spellings of a key, and the run's event type contains the
  // canonical form.
  const target = formatEntryKey(key);
  const actionId = actionIdOf(by);
  const before = await standingOf(env, by, key);
  if (before === undefined) return refuseArchived(env, by, instanceId, notFound());

  const path = () => `${by.tenantId}/${instanceId}/${digest("operator", actionId)}`;
  const output = await packOutput(env.PAYLOADS, path, resolution.verb === "confirm" ? resolution.output : undefined);
  const changed = { before: { state: before.state }, after: { state: SETTLED[resolution.verb] } };
  const action: Action = { id: actionId, verb: resolution.verb, target, instanceId, reason, ...changed };
  await act(env, by, action, {
    change: settleDoubt(key, resolution.verb, output, by.bulk ? stoodAtBegin(by.bulk.id) : undefined),
    also: { again: resolution.verb === "retry_anyway" ? nextGeneration(key) : [], resumed: resumeResolved(instanceId) },
    refused: async () => {
      const now = (await standingOf(env, by, key)) ?? before;
      return { why: whyRefused(now, resolution.verb), from: now.state, to: resolution.verb };
    },
    window: "doubt resolved, instance not notified",
  });
  return { action_id: actionId, instance_id: instanceId };
}

const SETTLED: Record<Resolution["verb"], string> = { confirm: "confirmed", reject: "failed", retry_anyway: "superseded" };

interface Standing {
  state: string;
  status: string;
  /** 1 if the effect is known to have happened. */
  happened: number;
  runs_no_more: number;
  /** 1 if the outcome became unknown after the bulk action was started. */
  is_newer: number;
}

async function standingOf(env: EngineEnv, by: Operator, key: EntryKey): Promise<Standing | undefined> {
  const { instanceId, step, item, generation } = key;
  const stood = by.bulk ? stoodAtBegin(by.bulk.id) : sql`true`;
  const [row] = await query<Standing>(
    env.DB,
    sql`
      SELECT millrace_inbox.state, millrace_inbox.error->>'answered' IS NOT NULL AS happened,
        iif(i.undo IS NULL, i.status, 'being undone') AS status, ${nobodyRuns("millrace_inbox.position")} AS runs_no_more,
        NOT ${stood} AS is_newer
      FROM millrace_inbox JOIN millrace_instances i ON i.id = millrace_inbox.instance_id
      WHERE millrace_inbox.instance_id = ${instanceId} AND millrace_inbox.step = ${step} AND millrace_inbox.item = ${item}
        AND millrace_inbox.generation = ${generation}
        AND i.tenant_id = ${by.tenantId}`,
  );
  return row;
}

/** Dry run of a resolution. `isAnswered`: the effect is already resolved. Errors: `effect_not_found`. */
export async function planResolve(
  env: EngineEnv,
  by: Operator,
  entryKey: string,
  verb: Exclude<Resolution["verb"], "confirm">,
): Promise<{ refused: string | null; isAnswered: boolean }> {
  const key = parseEntryKey(entryKey);
  const standing = key && (await standingOf(env, by, key));
  if (!standing) throw notFound();
  return { refused: whyRefused(standing, verb), isAnswered: standing.state !== "in_doubt" };
}

function whyRefused({ state, status, happened, runs_no_more: over, is_newer: newer }: Standing, verb: Resolution["verb"]): string | null {
  if (state !== "in_doubt") return `The effect is ${state}, not in_doubt: there is nothing to resolve.`;
  if (newer === 1)
    return "The effect was resolved after this bulk action started, and is in doubt again: check the receiving side again, then resolve the new attempt.";
  if (verb === "reject" && happened === 1) return IT_HAPPENED;
  if (verb !== "retry_anyway" || over === 0) return null;
  return `No run would execute the effect again: its instance is ${status}. Confirm or reject it, to record the outcome.`;
}

const IT_HAPPENED =
  'The effect happened, but the rows that it records were refused ("error" has the reason). Deploy code with valid rows and confirm it with the output in "answered", or cancel the instance with "undo": false. A retry would execute the effect a second time.';

function notFound(): MillraceError {
  return new MillraceError("effect_not_found", "There is no such effect. List those in doubt with GET /v1/effects?state=in_doubt.");
}
