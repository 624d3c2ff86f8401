import { iso, isoOrNull } from "../contract/row.ts";
import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import { ON_ITS_WAY, UNSEEN, WAITS_FOR_SLOT } from "../store/instances/status.ts";
import { pauseOf } from "../store/pauses.ts";
import type { StepRecord } from "./history.ts";
import { type Instance, IS_WAITING } from "./instance-row.ts";

type Now = Pick<Instance, "retrying" | "sleeping">;

export const ACTIVITIES = ["delayed", "held", "retrying", "sleeping", "waiting"] as const;
export type Activity = (typeof ACTIVITIES)[number];

const IS_RETRYING = fragment(`(status IN ${ON_ITS_WAY.fragment} AND (
  SELECT iif(state = 'claimed', error, NULL) FROM millrace_inbox
    WHERE instance_id = millrace_instances.id ORDER BY updated_at DESC LIMIT 1) IS NOT NULL)`);

const CONDITIONS: Readonly<Record<Activity, Statement>> = {
  delayed: sql`AND status = 'accepted' AND due_at > ${now}`,
  held: sql`AND status IN ${UNSEEN} AND (${WAITS_FOR_SLOT} OR ${pauseOf("1")} IS NOT NULL)`,
  retrying: sql`AND ${IS_RETRYING}`,
  sleeping: sql`AND status = 'waiting' AND undo IS NULL AND NOT ${IS_WAITING} AND NOT ${IS_RETRYING}`,
  waiting: sql`AND status IN ${ON_ITS_WAY} AND ${IS_WAITING}`,
};

export function andActivity(activity: Activity | undefined): Statement {
  return activity === undefined ? sql`` : CONDITIONS[activity];
}

/** The next retry and the first end of a sleep in the platform's history. */
export function activityIn(steps: readonly StepRecord[]): Now {
  return { retrying: first(steps.flatMap(retryOf)), sleeping: first(steps.flatMap(sleepOf)) };
}

/** When the platform begins the next attempt of a step; null if no attempt is due. */
export function nextAttemptAt({ state, attempts }: { state: string } & Pick<StepRecord, "attempts">): number | null {
  const last = attempts.at(-1);
  return state === "retrying" && last?.ended_at && last.retry_delay_ms !== null ? last.ended_at + last.retry_delay_ms : null;
}

function retryOf(step: StepRecord) {
  const last = step.attempts.at(-1);
  if (step.state !== "retrying" || !last?.error) return [];
  const at = nextAttemptAt(step);
  return [{ at, row: { step: step.name, attempt: last.attempt, next_at: isoOrNull(at), error: last.error.message } }];
}

function sleepOf({ state, name: step, until: at }: StepRecord) {
  return state === "sleeping" && at !== null ? [{ at, row: { step, until: iso(at) } }] : [];
}

function first<Row>(all: readonly { readonly at: number | null; readonly row: Row }[]): Row | null {
  const [soonest] = all.toSorted((one, other) => (one.at ?? Number.POSITIVE_INFINITY) - (other.at ?? Number.POSITIVE_INFINITY));
  return soonest?.row ?? null;
}
