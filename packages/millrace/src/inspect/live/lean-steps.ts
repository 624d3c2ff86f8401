import type { EngineEnv } from "../../contract/bindings.ts";
import { now, sql } from "../../contract/sql.ts";
import { labelOf } from "../../contract/step-names.ts";
import { query } from "../../store/d1/retry.ts";
import type { StepEvent } from "../history.ts";

/**
 * A position among the events of inline steps. The position contains a record's time by the database's clock, and the number of returned
 * events of that time.
 */
export interface LeanPlace {
  readonly at: number;
  readonly nth: number;
}

export interface LeanEvent {
  readonly event: StepEvent;
  readonly place: LeanPlace;
}

/** Maximum number of steps per query. The next query returns the following steps. */
const MOST_STEPS = 250;
/** Number of events per inline step: the start of the attempt, and the completion of the attempt. */
const EVENTS = 2;

/**
 * The events of an instance's inline steps after a position, in the order of the steps' records. A step is unknown before its record is
 * written. While the instance runs, the events of the current millisecond are left to the next query, because more events of that
 * millisecond may follow.
 */
export async function leanStepsBehind(
  env: Pick<EngineEnv, "DB">,
  instanceId: string,
  { at, nth }: LeanPlace,
  hasEnded: boolean,
): Promise<{ told: LeanEvent[]; hasMore: boolean }> {
  const limit = MOST_STEPS + Math.ceil(nth / EVENTS);
  const rows = await query<{ step: string; item: string; began_at: number; ended_at: number }>(
    env.DB,
    sql`
      SELECT step, item, began_at, ended_at FROM millrace_inbox
      WHERE instance_id = ${instanceId} AND ended_at >= ${at} AND ended_at < ${now} + ${hasEnded ? 1 : 0}
      ORDER BY ended_at, position, step, item, generation LIMIT ${limit}`,
  );
  const moments = Map.groupBy(rows, ({ ended_at }) => ended_at);
  const events = [...moments].flatMap(([moment, steps]) =>
    steps.flatMap(({ step, item, began_at, ended_at }, index): LeanEvent[] => {
      const stepName = `${labelOf(step, item)}-1`;
      const place = (of: number) => ({ at: moment, nth: index * EVENTS + of });
      return [
        { event: { type: "attempt_started", stepName, attempt: 1, timestamp: began_at } as StepEvent, place: place(1) },
        { event: { type: "attempt_completed", stepName, attempt: 1, timestamp: ended_at } as StepEvent, place: place(2) },
      ];
    }),
  );
  return { told: events.filter(({ place }) => place.at > at || place.nth > nth), hasMore: rows.length === limit };
}
