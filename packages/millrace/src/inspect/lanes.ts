import { type EngineEnv, objectsIn } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { type Ahead, type LaneStanding, type TurnsStub, turnsObjectOf } from "../lanes/turns-stub.ts";
import type { Operator } from "../store/actions.ts";
import { LOOKED_AT, type Page } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";

export interface LaneKey {
  readonly lane: string;
  readonly key: string;
}

/** A noted lane: stopped, or with a backlog. */
export interface NotedLane extends LaneKey, Pick<LaneStanding, "state" | "why" | "depth" | "oldestAt" | "head"> {
  readonly ahead: readonly Ahead[];
  readonly notedAt: number;
}

/** A lane that waits for a failed instance is `blocked`. */
export const NOTED_STATES = ["moving", "waiting", "blocked", "retrying", "delayed", "paused", "held", "unknown"] as const;
export type NotedState = (typeof NOTED_STATES)[number];

export interface LaneFilter {
  readonly lane?: string | undefined;
  readonly state?: NotedState | undefined;
  readonly cause?: string | undefined;
}

function noted({ tenantId }: Operator, after: LaneKey, lane: string | undefined, limit: number): Statement {
  return sql`(
    SELECT *, iif(state = 'waiting' AND failed IS NOT NULL, 'blocked', state) AS standing,
      (SELECT i.cause FROM millrace_instances i WHERE i.id = failed->>'instanceId' AND +i.tenant_id = ${tenantId}) AS cause
    FROM (
      SELECT *, (SELECT value FROM json_each(ahead) WHERE value->>'failed' IS NOT NULL LIMIT 1) AS failed FROM millrace_lanes
      WHERE tenant_id = ${tenantId} AND (lane, key) > (${after.lane}, ${after.key}) ${andEquals(fragment("lane"), lane)}
      ORDER BY lane, key LIMIT ${limit}))`;
}

/** The tenant's lanes that are stopped or have a backlog, by lane and key. With a filter a page may be short and still have a next page. */
export async function listLanes(
  env: EngineEnv,
  by: Operator,
  { after, limit, ...filter }: LaneFilter & { after: LaneKey; limit: number },
): Promise<Page<NotedLane>> {
  const { lane, state, cause } = filter;
  const isLookedFor = state !== undefined || cause !== undefined;
  const rows = await query<Omit<NotedLane, "head" | "ahead"> & { head: string | null; ahead: string }>(
    env.DB,
    sql`
      SELECT lane, key, state, why, depth, oldest_at AS oldestAt, head, ahead, noted_at AS notedAt
      FROM ${noted(by, after, lane, isLookedFor ? LOOKED_AT : limit + 1)}
      WHERE true ${andEquals(fragment("standing"), state)} ${andEquals(fragment("cause"), cause)}
      ORDER BY lane, key LIMIT ${limit + 1}`,
  );
  const items = rows
    .slice(0, limit)
    .map((row) => ({ ...row, head: row.head === null ? null : JSON.parse(row.head), ahead: JSON.parse(row.ahead) }));
  const nameOf = (one: LaneKey | undefined) => (one ? `${one.lane}/${one.key}` : null);
  if (rows.length > limit) return { items, next: nameOf(items.at(-1)) };
  if (!isLookedFor) return { items, next: null };
  const [end] = await query<{ lane: string; key: string }>(
    env.DB,
    sql`
      SELECT lane, key FROM millrace_lanes
      WHERE tenant_id = ${by.tenantId} AND (lane, key) > (${after.lane}, ${after.key}) ${andEquals(fragment("lane"), lane)}
      ORDER BY lane, key LIMIT 1 OFFSET ${LOOKED_AT - 1}`,
  );
  return { items, next: nameOf(end) };
}

export interface LaneGroup {
  readonly lane: string;
  readonly state: NotedState;
  /** The cause of the failed instances that hold them; null without one. */
  readonly cause: string | null;
  /** Number of keys, and of their waiting messages. */
  readonly keys: number;
  readonly waiting: number;
  readonly since: number;
  /** The key that stopped first, its reason and its failure. */
  readonly key: string;
  readonly why: string | null;
  readonly failed: string | null;
}

const COUNTED = 10_000;
const GROUPS = 50;

/**
 * The tenant's noted lanes, grouped by lane, state and cause; groups with the most keys first. `more`: the tenant has more lanes than were
 * grouped.
 */
export async function groupLanes(env: EngineEnv, by: Operator): Promise<{ groups: LaneGroup[]; more: boolean }> {
  // With a single min(), SQLite takes the other columns from the row of the minimum.
  const groups = await query<LaneGroup>(
    env.DB,
    sql`
      SELECT lane, standing AS state, cause, count(*) AS keys, sum(depth) AS waiting, min(coalesce(oldest_at, noted_at)) AS since,
        key, why, failed->>'failed' AS failed
      FROM ${noted(by, { lane: "", key: "" }, undefined, COUNTED)}
      GROUP BY lane, standing, cause ORDER BY keys DESC, since LIMIT ${GROUPS}`,
  );
  return { groups, more: groups.reduce((sum, { keys }) => sum + keys, 0) >= COUNTED };
}

/** The state of a lane of the tenant, from its object. A lane that never received a message is empty. Errors: `lane_not_found`. */
export function describeLane(env: EngineEnv, by: Operator, name: LaneKey): Promise<LaneStanding> {
  return askLane(env, by, name, (object) => object.stand());
}

/** Calls the object of a tenant's lane. Errors: `lane_not_found` without an answer. */
export async function askLane<Answer>(
  env: EngineEnv,
  by: Operator,
  { lane, key }: LaneKey,
  ask: (object: TurnsStub) => Promise<Answer | undefined>,
): Promise<Answer> {
  // A deployment without lanes has no binding for them.
  const answer = objectsIn(env, "LANES") ? await ask(turnsObjectOf(env, { lane, tenant: by.tenantId, key })) : undefined;
  if (answer !== undefined) return answer;
  throw new MillraceError(
    "lane_not_found",
    `The engineLanes of this deployment have no lane "${beginning(lane, 64)}". GET /v1/lanes lists the blocked lanes.`,
  );
}
