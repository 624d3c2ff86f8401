import { type Statement, sql } from "../contract/sql.ts";
import { ownStep } from "../contract/step-names.ts";
import type { EntryState } from "../store/inbox/entry.ts";
import type { StepRecord } from "./history.ts";

export interface Hold {
  readonly verb: "pause" | "cancel";
  readonly at: number;
}

/** Selects the last operator action on an instance, if that action pauses or stops the run. Otherwise the statement selects no row. */
export function selectHold(instanceId: string): Statement {
  return sql`
    SELECT verb, at FROM (
      SELECT verb, at FROM millrace_actions INDEXED BY millrace_actions_by_instance
      WHERE tenant_id = (SELECT tenant_id FROM millrace_instances
        WHERE id = ${instanceId}) AND instance_id = ${instanceId} AND result = 'applied'
        AND verb IN ('pause', 'resume', 'cancel', 'retry', 'restart', 'skip_step')
      ORDER BY at DESC, id DESC LIMIT 1)
    WHERE verb IN ('pause', 'cancel')`;
}

/** An attempt that began at most this many milliseconds before a hold may have detected the hold, if the attempt ended after the hold. */
const HEARD_LATE_MS = 250;

export type HeldState = "paused" | "stopped";

/**
 * The state of a step that the platform shows as complete although a hold ended its attempt before the step's code was called. For an
 * effect, the result depends on `entry`, the state of its last inbox entry. A read has no inbox entry, so the result depends on the times
 * of its attempt.
 */
export function heldState(step: StepRecord, entry: EntryState | undefined, hold: Hold | undefined): HeldState | undefined {
  const part = ownStep(step)?.part;
  if (hold === undefined || step.type !== "do" || step.state !== "complete" || part === "time_over" || part === "read_again")
    return undefined;
  if (entry !== undefined && entry !== "failed" && entry !== "claimed") return undefined;
  const { started_at = 0, ended_at = null } = step.attempts.at(-1) ?? {};
  const isBehind = started_at >= hold.at - HEARD_LATE_MS && (ended_at ?? 0) >= hold.at;
  if (hold.verb === "pause") return isBehind ? "paused" : undefined;
  return isBehind || entry !== undefined ? "stopped" : undefined;
}
