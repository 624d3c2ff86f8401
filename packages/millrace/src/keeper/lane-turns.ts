import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { laneIn } from "../contract/queue.ts";
import { among, sql } from "../contract/sql.ts";
import { turnsOf } from "../lanes/turns-stub.ts";
import { query } from "../store/d1/retry.ts";
import type { Open } from "./open-instances.ts";

/** What is known of an accepted command of a lane: it waits there, or its turn was given and it was never seen since. */
type TurnFinding = "in lane" | "start" | "leave";

/**
 * Where the accepted commands among these are that go through a lane: each is sent to it again, where its name makes it the same message.
 * Only one whose turn was given is started: nothing passes what waits before it. Never throws: one whose lane does not answer is left.
 */
export async function turnsAmong(env: EngineEnv, rows: readonly Open[]): Promise<ReadonlyMap<string, TurnFinding>> {
  const waiting = rows.filter((row) => row.status === "accepted" && !row.promised && laneIn(row.queue) !== undefined);
  if (waiting.length === 0) return new Map();
  const kept = await query<{ id: string; envelope: string }>(
    env.DB,
    sql`SELECT id, envelope FROM millrace_instances WHERE id IN ${among(waiting.map(({ id }) => id))}`,
  );
  const envelopes = new Map(kept.map(({ id, envelope }) => [id, JSON.parse(envelope) as Envelope]));
  const groups = Map.groupBy(waiting, ({ queue, tenant_id, subject }) => JSON.stringify([queue, tenant_id, subject]));
  return new Map((await Promise.all([...groups.values()].map((group) => turnsIn(env, group, envelopes)))).flat());
}

/** Those of one lane, in the order in which they were accepted: what it has lost, it is sent again in that order. */
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

/** The pause to the next look at what waits in a lane, which is on disk there: half its age, up to an hour. */
export function laneMs({ age_ms }: Pick<Open, "age_ms">): number {
  return Math.round(Math.min(Math.max(age_ms / 2, KEEPER_PATIENCE_MS), LONGEST_MS));
}
