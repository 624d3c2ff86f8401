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

/** Where a retry begins. */
interface Beginning {
  /** The step whose failure is forgotten: the one that is named, or the one that the run ended with. */
  readonly failed: string | null;
  /** The step that the platform starts from; null for the beginning. */
  readonly start: string | null;
  /** True where that is the beginning because the platform no longer remembers the run. */
  readonly isForgotten: boolean;
}

/**
 * Finds where a retry begins. The platform remembers the results of what was taken back: an undone instance starts from its beginning
 * whatever is asked for. It also remembers an output that a person has given anew since the run ended: then it starts from that effect.
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

/** What the code heard last when it threw an error of its own, if that was a failure on which nothing depends that was done. */
async function lastFailed(env: EngineEnv, { id, error }: Instance): Promise<string | null> {
  const behind = error?.behind;
  if (behind === undefined) return null;
  return (await query(env.DB, wentOnFrom(id, behind))).length === 0 ? behind : null;
}

/** Its undo has failed: a retry goes on with that. */
export function isBeingUndone(instance: Instance): boolean {
  return instance.undo !== null && !instance.undone;
}

/** A person has stopped it, and what it did stands. */
export function isStopped({ status, undo }: Instance): boolean {
  return status === "terminated" && undo === null;
}

/**
 * Refuses a step that nobody recorded: asked for one that it does not know, the platform would begin at the beginning. Errors:
 * `invalid_payload`, with the names that there are.
 */
export async function assertRecorded(
  env: EngineEnv,
  instance: Instance,
  effects: readonly Effect[],
  from: string | undefined,
): Promise<void> {
  const own = [...effects.map(({ step, item }) => labelOf(step, item)), instance.error?.step, instance.error?.behind].filter(Boolean);
  if (from === undefined || own.includes(from)) return;
  // A failure that the code caught may be on record nowhere else.
  own.push(...Object.keys(await leftBehind(env, instance.id)));
  if (own.includes(from)) return;
  // Steps that only read are known to the platform alone.
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
