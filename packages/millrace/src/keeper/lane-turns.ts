import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { laneIn } from "../contract/queue.ts";
import { turnsOf } from "../lanes/turns-stub.ts";
import { envelopesOf, type Open } from "./open-instances.ts";

/**
 * The state of an accepted command in its lane. `in lane`: the command waits for its turn. `start`: the turn of the command began, but no
 * start was recorded. `leave`: the lane did not answer.
 */
type TurnFinding = "in lane" | "start" | "leave";

/**
 * The states of the accepted lane commands among these rows. Each command is sent to its lane again, and the lane ignores duplicates by id.
 * A command is started only if its turn has begun, which preserves the order. The function never throws. If a lane does not answer, its
 * commands are left unchanged.
 */
export async function turnsAmong(env: EngineEnv, rows: readonly Open[]): Promise<ReadonlyMap<string, TurnFinding>> {
  const waiting = rows.filter((row) => row.status === "accepted" && !row.promised && laneIn(row.queue) !== undefined);
  if (waiting.length === 0) return new Map();
  const envelopes = await envelopesOf(env, waiting);
  const groups = Map.groupBy(waiting, ({ queue, tenant_id, subject }) => JSON.stringify([queue, tenant_id, subject]));
  return new Map((await Promise.all([...groups.values()].map((group) => turnsIn(env, group, envelopes)))).flat());
}

/** The commands of one lane are sent again in the order of their acceptance. */
async function turnsIn(env: EngineEnv, group: readonly Open[], envelopes: ReadonlyMap<string, Envelope>): Promise<[string, TurnFinding][]> {
  const [first, ...others] = group
    .toSorted((a, b) => a.accepted_at - b.accepted_at)
    .flatMap((row) => {
      const envelope = envelopes.get(row.id);
      return envelope ? [{ row, envelope }] : [];
    });
  if (!first) return [];
  const known = [first, ...others];
  try {
    const turns = await turnsOf(env, first.row.queue ?? "", [first.envelope, ...others.map(({ envelope }) => envelope)]);
    return known.map(({ row }, at) => [row.id, turns[at] === "given" ? "start" : "in lane"]);
  } catch (error) {
    logLine("warn", { log: "keeper_lane", queue: first.row.queue, error: messageOf(error) });
    return known.map(({ row }) => [row.id, "leave"]);
  }
}

const LONGEST_MS = 3_600_000;

/**
 * The pause before the next check of a command in a lane: half the command's age, up to an hour. The check can wait, because the lane
 * stores the command durably.
 */
export function laneMs({ age_ms }: Pick<Open, "age_ms">): number {
  return Math.round(Math.min(Math.max(age_ms / 2, KEEPER_PATIENCE_MS), LONGEST_MS));
}
