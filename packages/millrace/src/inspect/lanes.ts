import * as z from "zod";
import { type EngineEnv, objectsIn } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { component, listOf, rowOf, timestamp } from "../contract/row.ts";
import { andEquals, fragment, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { type TurnsStub, turnsObjectOf } from "../lanes/turns-stub.ts";
import type { Operator } from "../store/actions.ts";
import { selectRows } from "../store/d1/named.ts";
import { LOOKED_AT, type Page } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";

export interface LaneKey {
  readonly lane: string;
  readonly key: string;
}

const STATES = ["empty", "moving", "waiting", "retrying", "delayed", "paused", "held", "unknown"] as const;

export const LaneRow = component("Lane", {
  lane: z.string(),
  key: z.string(),
  state: z.enum(STATES),
  why: z.string().nullable().describe("Why the lane is stalled; null for a lane that is not stalled."),
  depth: z.int().describe("Messages that wait."),
  oldest_at: timestamp.nullable(),
  head: component("LaneHead", {
    id: z.string(),
    type: z.string().nullable(),
    idempotency_key: z.string().nullable().describe("The id of the message, which its instance and its dead letter also have."),
    sent_at: timestamp,
    attempts: z.int().describe("The number of the message's deliveries."),
    error: z.string().nullable().describe("The error of the last attempt."),
    next_at: z
      .nullable(timestamp)
      .describe("When the next attempt of the message starts; null if it starts as soon as the message is the head of the lane."),
  }).nullable(),
  ahead: listOf({ instance_id: z.string(), since: timestamp, failed: z.string().nullable() }).describe(
    "The started instances that have not ended.",
  ),
});
export type LaneRow = z.infer<typeof LaneRow>;

/** A lane that is stopped or has a backlog. */
export const NotedLane = LaneRow.extend({ recorded_at: timestamp }).meta({ id: "NotedLane" });
export type NotedLane = z.infer<typeof NotedLane>;

/** `blocked`: the lane waits for a failed instance. */
const stands = z.enum(["moving", "waiting", "blocked", "retrying", "delayed", "paused", "held", "unknown"]);

export const LaneFilter = z.object({
  lane: z.string().max(63).optional(),
  state: stands.optional().describe("`blocked`: the lane waits for a failed instance."),
  cause: z.string().max(500).optional().describe("An `id` of `/v1/instances/causes`: the cause of the blocking instance."),
});

function noted({ tenantId }: Operator, after: LaneKey, lane: string | undefined, limit: number): Statement {
  return sql`(
    SELECT *, iif(state = 'waiting' AND failed IS NOT NULL, 'blocked', state) AS standing,
      (SELECT i.cause FROM millrace_instances i WHERE i.id = failed->>'instance_id' AND +i.tenant_id = ${tenantId}) AS cause
    FROM (
      SELECT *, (SELECT value FROM json_each(ahead) WHERE value->>'failed' IS NOT NULL LIMIT 1) AS failed FROM millrace_lanes
      WHERE tenant_id = ${tenantId} AND (lane, key) > (${after.lane}, ${after.key}) ${andEquals(fragment("lane"), lane)}
      ORDER BY lane, key LIMIT ${limit}))`;
}

/** By lane and key. With a filter, a page may be short although a next page exists. */
export async function listLanes(
  env: EngineEnv,
  by: Operator,
  { after, limit, ...filter }: z.infer<typeof LaneFilter> & { after: LaneKey; limit: number },
): Promise<Page<NotedLane>> {
  const { lane, state, cause } = filter;
  const isLookedFor = state !== undefined || cause !== undefined;
  const rows = await selectRows(
    env.DB,
    NotedLane,
    sql`
      SELECT lane, key, state, why, depth, oldest_at, head, ahead, recorded_at
      FROM ${noted(by, after, lane, isLookedFor ? LOOKED_AT : limit + 1)}
      WHERE true ${andEquals(fragment("standing"), state)} ${andEquals(fragment("cause"), cause)}
      ORDER BY lane, key LIMIT ${limit + 1}`,
  );
  const items = rows.slice(0, limit);
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

export const LaneGroup = component("LaneGroup", {
  lane: z.string(),
  state: stands,
  cause: z.string().nullable().describe("The cause of the blocking instances: an `id` of `/v1/instances/causes`."),
  keys: z.int().describe("The number of lanes (one per key)."),
  waiting: z.int().describe("The number of messages that wait in these lanes."),
  since: timestamp.describe("When the oldest message waiting in these lanes was sent."),
  key: z.string().describe("The key of the lane stalled for longest."),
  why: z.string().nullable().describe("Why the lane stalled for longest is stalled."),
  failed: z.string().nullable().describe("The error of the failed instance that blocks the lane."),
});

const COUNTED = 10_000;
const GROUPS = 50;

/** By lane, state and cause, the groups with the most keys first. */
export async function groupLanes(env: EngineEnv, by: Operator): Promise<{ items: z.infer<typeof LaneGroup>[]; more: boolean }> {
  // In a query with a single min(), SQLite takes the values of plain columns from the row with the minimum.
  const items = await selectRows(
    env.DB,
    LaneGroup,
    sql`
      SELECT lane, standing AS state, cause, count(*) AS keys, sum(depth) AS waiting, min(coalesce(oldest_at, recorded_at)) AS since,
        key, why, failed->>'failed' AS failed
      FROM ${noted(by, { lane: "", key: "" }, undefined, COUNTED)}
      GROUP BY lane, standing, cause ORDER BY keys DESC, since LIMIT ${GROUPS}`,
  );
  return { items, more: items.reduce((sum, { keys }) => sum + keys, 0) >= COUNTED };
}

/** Reads the lane's Durable Object. A lane that never received a message is empty. Errors: `lane_not_found`. */
export async function describeLane(env: EngineEnv, by: Operator, name: LaneKey): Promise<LaneRow> {
  return rowOf(LaneRow, await askLane(env, by, name, (object) => object.stand()));
}

/** Errors: `lane_not_found` if the deployment has no such lane. */
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
