import type { EngineEnv } from "../../contract/bindings.ts";
import { now, sql } from "../../contract/sql.ts";
import { labelOf } from "../../contract/step-names.ts";
import { query } from "../../store/d1/retry.ts";
import type { StepEvent } from "../history.ts";

/** A place among what was told of lean steps: the moment of a record, by the database's clock, and how many events of that moment. */
export interface LeanPlace {
  readonly at: number;
  readonly nth: number;
}

/** Something that happened to a lean step, as the platform would tell it, and the place behind it. */
export interface LeanEvent {
  readonly event: StepEvent;
  readonly place: LeanPlace;
}

/** Of more steps than these the rest is heard by the next look. */
const MOST_STEPS = 250;
/** Of each step: that its attempt began, and that it was done. */
const EVENTS = 2;

/**
 * What is told of an instance's lean steps behind a place: of each that it began and was done, in the order of their records, because
 * nobody knows of one before. To a moment that is past nothing can be added; one that is not is left to the next look, but behind the end.
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
