import type { EngineEnv } from "../../contract/bindings.ts";
import { MillraceError } from "../../contract/errors.ts";
import { platformId } from "../../contract/ids.ts";
import { sql } from "../../contract/sql.ts";
import { codeLabelOf, labelOf } from "../../contract/step-names.ts";
import { shortened } from "../../contract/text.ts";
import type { Effect } from "../../inspect/effects.ts";
import { wholeHistoryOf } from "../../inspect/history.ts";
import type { Instance } from "../../inspect/instances.ts";
import { askPlatform } from "../../intake/platform.ts";
import { query } from "../../store/d1/retry.ts";
import { wentOnFrom } from "../../store/inbox/caught.ts";
import { SKIPPED } from "../../store/inbox/outcome.ts";
import { REMEMBERED_DAYS } from "../../store/kept-days.ts";
import { leftBehind } from "./left.ts";

const MAX_NAMES_CHARACTERS = 1000;

interface Beginning {
  /** The named step, or the step that ended the run. Its failure is cleared. */
  readonly failed: string | null;
  /** The step from which the platform restarts; null for the beginning. */
  readonly start: string | null;
  /** True if `start` is null because the platform has removed the run. */
  readonly isForgotten: boolean;
}

/**
 * Finds the step from which a retry starts. An undone instance starts from the beginning, because the platform has cached the results of
 * undone steps. If an operator replaced an output since the run ended, the retry starts from that effect, because the platform has cached
 * the former output.
 */
export async function beginningOf(env: EngineEnv, instance: Instance, from: string | undefined): Promise<Beginning> {
  if (instance.undone) return { failed: null, start: null, isForgotten: false };
  const failed = from ?? (instance.error?.step || (await lastFailed(env, instance)));
  const [mended] = await query<{ step: string; item: string }>(
    env.DB,
    sql`
      SELECT step, item FROM millrace_inbox
      WHERE instance_id = ${instance.id} AND state = 'done' AND token IN ('operator', ${SKIPPED}) AND position >= 0
        AND updated_at >= ${instance.updatedAt}
      ORDER BY position LIMIT 1`,
  );
  const start = from === undefined && mended ? labelOf(mended.step, mended.item) : failed;
  const isForgotten = start !== null && (await isForgottenBy(env, instance));
  return { failed, start: isForgotten ? null : start, isForgotten };
}

/** True if the platform has deleted the run. A run that failed more than 30 days ago needs no call. No answer counts as false. */
async function isForgottenBy(env: EngineEnv, { id, workflow, undo, updatedAt }: Instance): Promise<boolean> {
  if (Date.now() - updatedAt > REMEMBERED_DAYS * DAY_MS) return true;
  return (await askPlatform(env, workflow, platformId(id, undo))).status === "unknown";
}

const DAY_MS = 86_400_000;

/** The last failed step before the code threw its own error. Null if a recorded effect depends on that failure. */
async function lastFailed(env: EngineEnv, { id, error }: Instance): Promise<string | null> {
  const behind = error?.behind;
  if (behind === undefined) return null;
  return (await query(env.DB, wentOnFrom(id, behind))).length === 0 ? behind : null;
}

export function isBeingUndone(instance: Instance): boolean {
  return instance.undo !== null && !instance.undone;
}

export function isStopped({ status, undo }: Instance): boolean {
  return status === "terminated" && undo === null;
}

/**
 * Errors: `invalid_payload`, with the known names, for a step without a record. The platform would start an unknown step from the
 * beginning.
 */
export async function assertRecorded(
  env: EngineEnv,
  instance: Instance,
  effects: readonly Effect[],
  from: string | undefined,
): Promise<void> {
  const own = [...effects.map(({ step, item }) => labelOf(step, item)), instance.error?.step, instance.error?.behind].filter(Boolean);
  if (from === undefined || own.includes(from)) return;
  // A caught failure may have no other record.
  own.push(...Object.keys(await leftBehind(env, instance.id)));
  if (own.includes(from)) return;
  // Only the platform records reads.
  const { steps, truncated } = await wholeHistoryOf(env, instance);
  const names = [...new Set([...steps.map(codeLabelOf), ...own])];
  if (truncated || names.includes(from)) return;
  const known = shortened(names.map((name) => `"${name}"`).join(", ") || "none", MAX_NAMES_CHARACTERS);
  throw new MillraceError(
    "invalid_payload",
    `The instance has recorded no step "${shortened(from, 100)}" to start from. It has: ${known}.`,
    { issues: [{ path: "from", message: "must be a step that the instance has recorded" }] },
  );
}
