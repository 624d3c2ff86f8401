import type { EngineEnv } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { type Ahead, type LaneStanding, type TurnsStub, turnsObjectOf } from "../lanes/turns-stub.ts";
import type { Operator } from "../store/actions.ts";
import { query } from "../store/retry.ts";

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

/** The tenant's lanes that stand still or hold a backlog, by lane and key, behind a place in that order. */
export async function listLanes(
  env: EngineEnv,
  by: Operator,
  { after: { lane, key }, limit }: { after: LaneKey; limit: number },
): Promise<NotedLane[]> {
  const rows = await query<Omit<NotedLane, "head" | "ahead"> & { head: string | null; ahead: string }>(
    env.DB,
    sql`
      SELECT lane, key, state, why, depth, oldest_at AS oldestAt, head, ahead, noted_at AS notedAt FROM lanes
      WHERE tenant_id = ${by.tenantId} AND (lane, key) > (${lane}, ${key}) ORDER BY lane, key LIMIT ${limit}`,
  );
  return rows.map((row) => ({ ...row, head: row.head === null ? null : JSON.parse(row.head), ahead: JSON.parse(row.ahead) }));
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
  const answer = "LANES" in env ? await ask(turnsObjectOf(env, { lane, tenant: by.tenantId, key })) : undefined;
  if (answer !== undefined) return answer;
  throw new MillraceError(
    "lane_not_found",
    `The engineLanes of this deployment have no lane "${beginning(lane, 64)}". GET /v1/lanes lists those that stand still.`,
  );
}
