import { now, type Statement, sql } from "../contract/sql.ts";

/** A lane that is blocked or has a backlog, in the form that the lane's object recorded. */
export interface NotedLane {
  readonly tenantId: string;
  readonly lane: string;
  readonly key: string;
  readonly state: string;
  readonly why: string | null;
  readonly depth: number;
  readonly oldestAt: number | null;
  /** The head message as JSON, without the payload; null when the lane is empty. */
  readonly head: string | null;
  /** The ids of the instances that the lane waits for, as JSON. */
  readonly ahead: string;
}

export function noteLane({ tenantId, lane, key, state, why, depth, oldestAt, head, ahead }: NotedLane): Statement {
  return sql`
    INSERT INTO millrace_lanes (tenant_id, lane, key, state, why, depth, oldest_at, head, ahead, recorded_at)
    VALUES (${tenantId}, ${lane}, ${key}, ${state}, ${why}, ${depth}, ${oldestAt}, ${head}, ${ahead}, ${now})
    ON CONFLICT (tenant_id, lane, key) DO UPDATE SET state = excluded.state, why = excluded.why, depth = excluded.depth,
      oldest_at = excluded.oldest_at, head = excluded.head, ahead = excluded.ahead, recorded_at = excluded.recorded_at`;
}

/** Removes the record of a lane that makes progress or is empty. */
export function forgetLane({ tenantId, lane, key }: Pick<NotedLane, "tenantId" | "lane" | "key">): Statement {
  return sql`DELETE FROM millrace_lanes WHERE tenant_id = ${tenantId} AND lane = ${lane} AND key = ${key}`;
}

/** Removes the record of a lane only if it was written at the given time, because the lane's object may have written a newer record. */
export function forgetNoted({ tenantId, lane, key }: Pick<NotedLane, "tenantId" | "lane" | "key">, notedAt: number): Statement {
  return sql`DELETE FROM millrace_lanes WHERE tenant_id = ${tenantId} AND lane = ${lane} AND key = ${key} AND recorded_at = ${notedAt}`;
}
