import type { EngineEnv } from "../contract/bindings.ts";
import type { Elsewhere } from "../contract/elsewhere.ts";
import { laneIn } from "../contract/queue.ts";
import { among, now, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import type { Portion } from "../contract/within.ts";
import { relay } from "../recorder/relay.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { noteResent, type Outgoing, removeInLane, SENT_AT } from "../store/outbox.ts";
import { oldestWaiting } from "./backlog.ts";

/** Maximum number of rows that one round sends, so that each round ends. The oldest rows are sent first. */
const ROWS = 500;

interface OutboxRow {
  id: string;
  queue: string;
  body: string;
  /** Time of the message's last known send. */
  sent_at: number;
  /** Error of the message's last send. */
  error: string | null;
}

/**
 * Sends committed messages that no consumer has confirmed. Each row has its own backoff, so that a row whose queue does not work does not
 * delay the other rows. A message that may still wait in a long queue is not sent again. Messages for the queue of another Worker are sent
 * by the keeper of that Worker.
 */
export async function resendOutbox(env: EngineEnv, { queues }: Elsewhere): Promise<Portion> {
  const rows = await query<OutboxRow>(
    env.DB,
    sql`SELECT id, queue, body, ${SENT_AT} AS sent_at, error FROM millrace_outbox
      WHERE due_at <= ${now} AND queue NOT IN ${among([...queues])} ORDER BY due_at LIMIT ${ROWS}`,
  );
  if (rows.length === 0) return { did: 0, more: false };
  const oldest = await oldestWaiting(
    env,
    rows.filter((row) => laneIn(row.queue) === undefined).map((row) => row.queue),
  );
  // A queue that cannot report its backlog (UNKNOWN is 0) counts as empty, because a repeated message is harmless.
  const lost = rows.filter((row) => row.error !== null || row.sent_at < (oldest.get(row.queue) || Number.POSITIVE_INFINITY));
  const failures = await relay(
    env,
    lost.map((row): Outgoing => ({ id: row.id, queue: row.queue, delaySeconds: 0, body: row.body })),
  );
  const errors = Object.fromEntries(failures.map(({ id, error }) => [id, beginning(error, 500)]));
  const sent = lost.map(({ id }) => id).filter((id) => !(id in errors));
  // A lane stores its messages durably until they are done, so messages in a lane are not sent again.
  const isInLane = new Set(lost.filter(({ id, queue }) => laneIn(queue) !== undefined && !(id in errors)).map(({ id }) => id));
  await atomically(env.DB, [
    noteResent({ looked: rows.map(({ id }) => id), sent, errors }),
    ...(isInLane.size > 0 ? [removeInLane([...isInLane])] : []),
  ]);
  return { did: lost.length - failures.length, more: rows.length === ROWS };
}
