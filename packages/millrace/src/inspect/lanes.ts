import { type EngineEnv, objectsIn } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { type Ahead, type LaneStanding, type TurnsStub, turnsObjectOf } from "../lanes/turns-stub.ts";
import type { Operator } from "../store/actions.ts";
import { LOOKED_AT, type Page } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";

/** A lane of a tenant. */
export interface LaneKey {
  readonly lane: string;
  readonly key: string;
}

/** A lane that does not flow, as it was noted. */
export interface NotedLane extends LaneKey, Pick<LaneStanding, "state" | "why" | "depth" | "oldestAt" | "head"> {
  readonly ahead: readonly Ahead[];
  readonly notedAt: number;
}

/** How a noted lane stands, to whoever looks for trouble: one that waits for an instance that failed is `blocked`. */
export const NOTED_STATES = ["moving", "waiting", "blocked", "retrying", "delayed", "paused", "held", "unknown"] as const;
export type NotedState = (typeof NOTED_STATES)[number];

export interface LaneFilter {
  readonly lane?: string | undefined;
  readonly state?: NotedState | undefined;
  /** The cause of the instance that it stands still for. */
  readonly cause?: string | undefined;
}

/** Lanes of a tenant behind a place, each with how it stands, the first instance that it stands still for, and that one's cause. */
function noted({ tenantId }: Operator, after: LaneKey, lane: string | undefined, limit: number): Statement {
  return sql`(
    SELECT *, iif(state = 'waiting' AND failed IS NOT NULL, 'blocked', state) AS standing,
      (SELECT i.cause FROM millrace_instances i WHERE i.id = failed->>'instanceId' AND +i.tenant_id = ${tenantId}) AS cause
    FROM (
      SELECT *, (SELECT value FROM json_each(ahead) WHERE value->>'failed' IS NOT NULL LIMIT 1) AS failed FROM millrace_lanes
      WHERE tenant_id = ${tenantId} AND (lane, key) > (${after.lane}, ${after.key}) ${andEquals(fragment("lane"), lane)}
      ORDER BY lane, key LIMIT ${limit}))`;
}

/** The tenant's lanes that stand still or hold a backlog, by lane and key. By a filter a page may be short and still have a next one. */
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

/** Lanes that stand still for one reason. */
export interface LaneGroup {
  readonly lane: string;
  readonly state: NotedState;
  /** The cause of the instances that they stand still for; null where they do for none, or for one that was mended since. */
  readonly cause: string | null;
  /** How many keys, and how many messages wait in them. */
  readonly keys: number;
  readonly waiting: number;
  /** How long the first of them has stood still. */
  readonly since: number;
  /** The first of them: its key, why it stands still, and what failed there. */
  readonly key: string;
  readonly why: string | null;
  readonly failed: string | null;
}

/** Lanes that are counted by what they stand still for. */
const COUNTED = 10_000;
const GROUPS = 50;

/** The tenant's lanes that do not flow, by lane, state and cause: most keys first. `more`: it has more lanes than are counted. */
export async function groupLanes(env: EngineEnv, by: Operator): Promise<{ groups: LaneGroup[]; more: boolean }> {
  // With one min() the columns beside it are those of the row that it is of.
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

/** How a lane of the tenant stands, as its object says. One that was never sent anything is empty. Errors: `lane_not_found`. */
export function describeLane(env: EngineEnv, by: Operator, name: LaneKey): Promise<LaneStanding> {
  return askLane(env, by, name, (object) => object.stand());
}

/** What the object of a tenant's lane answers. Errors: `lane_not_found` where it answers nothing. */
export async function askLane<Answer>(
  env: EngineEnv,
  by: Operator,
  { lane, key }: LaneKey,
  ask: (object: TurnsStub) => Promise<Answer | undefined>,
): Promise<Answer> {
  // A deployment without lanes binds no object for them.
  const answer = objectsIn(env, "LANES") ? await ask(turnsObjectOf(env, { lane, tenant: by.tenantId, key })) : undefined;
  if (answer !== undefined) return answer;
  throw new MillraceError(
    "lane_not_found",
    `The engineLanes of this deployment have no lane "${beginning(lane, 64)}". GET /v1/lanes lists the blocked lanes.`,
  );
}
