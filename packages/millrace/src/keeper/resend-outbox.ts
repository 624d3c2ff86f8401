import type { EngineEnv } from "../contract/bindings.ts";
import type { Portion } from "../contract/patience.ts";
import { laneIn } from "../contract/queue.ts";
import { now, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import { relay } from "../recorder/relay.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { noteResent, type Outgoing, removeInLane, SENT_AT } from "../store/outbox.ts";
import { oldestWaiting } from "./backlog.ts";

/** Rows of one round: bounded, so that a round ends; oldest first, so that none is forgotten. */
const ROWS = 500;

interface OutboxRow {
  id: string;
  queue: string;
  body: string;
  /** When it was sent last, as far as anybody knows. */
  sent_at: number;
  /** Why it was not, the last time. */
  error: string | null;
}

/**
 * Sends committed messages that no consumer has confirmed. Each row backs off by itself, so that one no queue will take holds
 * back none of the others. A message that may simply still be waiting in a long queue is left alone.
 */
export async function resendOutbox(env: EngineEnv): Promise<Portion> {
  const rows = await query<OutboxRow>(
    env.DB,
    sql`SELECT id, queue, body, ${SENT_AT} AS sent_at, error FROM millrace_outbox WHERE due_at <= ${now} ORDER BY due_at LIMIT ${ROWS}`,
  );
  if (rows.length === 0) return { did: 0, more: false };
  const oldest = await oldestWaiting(
    env,
    rows.filter((row) => laneIn(row.queue) === undefined).map((row) => row.queue),
  );
  // A queue that cannot say what it holds (UNKNOWN is 0) is taken for empty: a repeat is harmless.
  const lost = rows.filter((row) => row.error !== null || row.sent_at < (oldest.get(row.queue) || Number.POSITIVE_INFINITY));
  const failures = await relay(
    env,
    lost.map((row): Outgoing => ({ id: row.id, queue: row.queue, delaySeconds: 0, body: row.body })),
  );
  const errors = Object.fromEntries(failures.map(({ id, error }) => [id, beginning(error, 500)]));
  const sent = lost.map(({ id }) => id).filter((id) => !(id in errors));
  // What a lane has is on disk there, and kept until it is done.
  const isInLane = new Set(lost.filter(({ id, queue }) => laneIn(queue) !== undefined && !(id in errors)).map(({ id }) => id));
  await atomically(env.DB, [
    noteResent({ looked: rows.map(({ id }) => id), sent, errors }),
    ...(isInLane.size > 0 ? [removeInLane([...isInLane])] : []),
  ]);
  return { did: lost.length - failures.length, more: rows.length === ROWS };
}
