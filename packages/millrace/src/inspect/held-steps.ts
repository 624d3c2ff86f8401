import type { EngineEnv } from "../contract/bindings.ts";
import { platformId } from "../contract/ids.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { ownStep } from "../contract/step-names.ts";
import type { EntryState } from "../store/inbox/entry.ts";
import { type History, historyOf, type StepRecord } from "./history.ts";

/** A person's word by which a run begins nothing, and since when. */
export interface Hold {
  readonly verb: "pause" | "cancel";
  readonly at: number;
}

/** What an instance was told last, where that holds it: no row where it goes on, or where nobody has spoken. */
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

/** An attempt that began so long before a word was written may have heard it still; it ended behind that then. */
const HEARD_LATE_MS = 250;

/** How a step stands that a hold has kept from beginning. */
export type HeldState = "paused" | "stopped";

/**
 * Whether a step that is complete for the platform never began, because a person held its run: its attempt had ended with that. One that
 * did something has an entry (`entry`: how its last one stands); one that only reads has none, and is told by when its attempt began.
 */
export function heldState(step: StepRecord, entry: EntryState | undefined, hold: Hold | undefined): HeldState | undefined {
  const part = ownStep(step)?.part;
  if (hold === undefined || step.type !== "do" || step.state !== "complete" || part === "time_over" || part === "read_again")
    return undefined;
  if (entry !== undefined && entry !== "failed" && entry !== "claimed") return undefined;
  const { startedAt = 0, endedAt = null } = step.attempts.at(-1) ?? {};
  const isBehind = startedAt >= hold.at - HEARD_LATE_MS && (endedAt ?? 0) >= hold.at;
  if (hold.verb === "pause") return isBehind ? "paused" : undefined;
  return isBehind || entry !== undefined ? "stopped" : undefined;
}

/** What the platform remembers of an instance's run, and behind that of the undo of it: so many of the steps are the run's (`own`). */
export async function runAndUndoOf(env: EngineEnv, instance: Parameters<typeof historyOf>[1]): Promise<History & { own: number }> {
  const { id, workflow, undo = null } = instance;
  const names = undo === null ? [id] : [id, platformId(id, undo)];
  const [run, back] = await Promise.all(names.map((name) => historyOf(env, { id: name, workflow })));
  const steps = [...(run?.steps ?? []), ...(back?.steps ?? [])];
  return { steps, truncated: [run, back].some((part) => part?.truncated), own: run?.steps.length ?? 0 };
}
