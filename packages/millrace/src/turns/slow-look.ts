import type { EngineEnv } from "../contract/bindings.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { query } from "../store/d1/retry.ts";
import { statusesOf } from "../store/instances/fate.ts";
import { lookNow } from "../store/instances/look.ts";
import { UNDER_WAY, UNSEEN } from "../store/instances/status.ts";
import type { Place, Places } from "./places.ts";

const SHORTEST_MS = 10_000;
const LONGEST_MS = 300_000;
/**
 * If an instance has recorded no step within this time, in milliseconds, the keeper checks the instance on the platform. Unless the lane
 * requests a check, the keeper does not check an instance that waits in the lane.
 */
const UNSEEN_MS = 30_000;

/**
 * The time between two polls for ended instances. The interval is half the time since the latest turn, and between 10 s and 5 min. The
 * interval is computed without a counter, so that a recreated object continues with the same interval. The first poll is due one interval
 * after the turn was given.
 */
export function lookPauseMs(places: readonly Place[], lookedAt: number): number {
  const youngest = Math.max(...places.map(({ since }) => since));
  const pauseMs = Math.min(Math.max((Date.now() - youngest) / 2, SHORTEST_MS), LONGEST_MS);
  return lookedAt >= youngest ? pauseMs : youngest + SHORTEST_MS - lookedAt;
}

/**
 * Reads in one query the status of instances without a reported end. The function never throws, because the next poll reads the status
 * again.
 */
export async function askDatabase(env: Promise<Pick<EngineEnv, "DB">>, tenantId: string, places: Places): Promise<void> {
  const ids = places.all.map(({ id }) => id);
  try {
    const { DB } = await env;
    const statuses = await statusesOf(DB, tenantId, ids);
    for (const { id, failed } of [...places.all]) {
      const status = statuses.get(id);
      if (status === "errored" || status === "skipped") places.end(id, { status, error: null });
      else if (status !== undefined && UNDER_WAY.has(status)) places.goesOn(id);
      // The instance is complete, ended by an operator, refused, or so old that its row was removed. A missing row does not show that an
      // operator has fixed a failed instance.
      else if (status !== undefined || failed === null) places.free([id]);
    }
    const unseen = places.all.filter(({ id, since }) => since < Date.now() - UNSEEN_MS && UNSEEN.has(statuses.get(id) ?? "running"));
    if (unseen.length > 0) await query(DB, lookNow(unseen.map(({ id }) => id)));
  } catch (error) {
    logLine("warn", { log: "turn_look", error: messageOf(error) });
  }
}
