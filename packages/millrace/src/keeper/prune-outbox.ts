import type { EngineEnv } from "../contract/bindings.ts";
import { logLine } from "../contract/log-line.ts";
import { now, rowChunks, sql } from "../contract/sql.ts";
import { deadLetter, envelopeIn } from "../intake/letters/letter.ts";
import { countLetters } from "../observe/metrics/runs.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import { type DeadLetter, insertDeadLetters } from "../store/dead-letters.ts";
import { isStuck, MAX_PAUSE_MS, removeStuck } from "../store/outbox.ts";

const ROWS = 100;
/** Number of pauses between a row's early tries that are shorter than the maximum pause. */
const SHORT_PAUSES = 6;

/**
 * Messages that no queue has accepted within the retention time become dead letters. The same write removes these messages from the outbox.
 * The function measures a message's age in tries, one try per maximum pause. Messages that a queue accepted but no consumer confirmed
 * remain in the outbox, and are sent again. The query reads the whole outbox, which contains only unconfirmed messages.
 */
export async function giveUpOutbox(env: EngineEnv, keepMs: number): Promise<number> {
  const tries = Math.ceil(keepMs / MAX_PAUSE_MS) + SHORT_PAUSES;
  const stuck = await query<Stuck>(
    env.DB,
    sql`SELECT id, queue, body, error, attempts, ${now} - ${keepMs} AS long_ago FROM millrace_outbox WHERE ${isStuck(tries)} LIMIT ${ROWS}`,
  );
  if (stuck.length === 0) return 0;
  // Only rows that are still in the outbox become dead letters, because a consumer may have confirmed some rows in the meantime.
  const letters = stuck.map((row) => ({ ...letterOf(row), outboxId: row.id }));
  const written = await namedBatch(env.DB, {
    letters: rowChunks(letters).map((chunk) =>
      insertDeadLetters(
        chunk,
        sql`EXISTS (SELECT 1 FROM millrace_outbox
        WHERE millrace_outbox.id = l.value->>'outboxId' AND ${isStuck(tries)})`,
      ),
    ),
    gone: removeStuck(
      stuck.map(({ id }) => id),
      tries,
    ),
  });
  countLetters(env, letters.slice(0, written.gone.length));
  logLine("error", { log: "dead_letters", queue: "outbox", captured: written.gone.length });
  return written.gone.length;
}

interface Stuck {
  id: string;
  queue: string;
  body: string;
  error: string;
  attempts: number;
  long_ago: number;
}

/** The dead letter of an outbox row. A body that is not JSON is stored as a string. */
function letterOf({ queue, body: text, error, attempts, long_ago }: Stuck): DeadLetter {
  const body = parsed(text);
  const createdAt = Date.parse(envelopeIn(body)?.created_at ?? "");
  return deadLetter({ queue, body, error, reason: "undeliverable", attempts, firstAt: Number.isNaN(createdAt) ? long_ago : createdAt });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
