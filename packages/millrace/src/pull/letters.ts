import type { EngineEnv } from "../contract/bindings.ts";
import { causeId } from "../contract/cause.ts";
import { handedOver, nextHandOffAt } from "../contract/hand-off.ts";
import { digest } from "../contract/ids.ts";
import { logLine } from "../contract/log-line.ts";
import { countLetters } from "../observe/metrics/runs.ts";
import { cellOf } from "../store/cells.ts";
import { query } from "../store/d1/retry.ts";
import { type DeadLetter, insertDeadLetters } from "../store/dead-letters.ts";
import type { PullLetter, PullName, PullPlan } from "./definition.ts";
import type { PullContentType } from "./message.ts";

/** A dead letter of a pull queue, and the state of its hand-off. */
export interface KeptPullLetter extends PullLetter {
  /** Number of failed hand-offs. */
  tries: number;
  /** The time when the next hand-off of the dead letter is due; null if the queue has no handler. */
  dueAt: number | null;
  /** The error of the dead letter's last hand-off; null if no hand-off has failed. */
  handOffError: string | null;
}

interface LetterRow extends Record<string, SqlStorageValue> {
  sequence: number;
  id: string;
  type: PullContentType;
  body: string | ArrayBuffer;
  reason: PullLetter["reason"];
  attempts: number;
  sent_at: number;
  dead_at: number;
  tries: number;
  due_at: number | null;
  error: string | null;
}

/** Time limit of a call of `onDeadLetter`, in milliseconds. */
const HAND_OFF_LIMIT_MS = 60_000;
/** Maximum number of hand-offs in one call of the alarm. A call of the alarm may take 15 minutes. */
const HANDED_AT_ONCE = 10;

const COLUMNS = "sequence, id, type, body, reason, attempts, sent_at, dead_at, tries, due_at, error";

/**
 * The dead letters of one queue. Each dead letter remains until its hand-off succeeds or an operator removes it. The queue delivers other
 * messages while dead letters wait for their hand-off.
 */
export class PullLetters {
  readonly #sql: SqlStorage;
  #underWay = false;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  get count(): number {
    return this.#sql.exec<{ count: number }>("SELECT count(*) AS count FROM pull_letters").one().count;
  }

  /** Returns dead letters in the order in which their messages were sent, starting after the dead letter with the given id. */
  list(name: PullName, after: string | undefined, most: number): KeptPullLetter[] {
    const sql = `SELECT ${COLUMNS} FROM pull_letters
      WHERE sequence > coalesce((SELECT sequence FROM pull_letters WHERE id = ?1), 0) ORDER BY sequence LIMIT ?2`;
    return this.#sql
      .exec<LetterRow>(sql, after ?? "", most)
      .toArray()
      .map((row) => read(name, row));
  }

  /** Removes a dead letter and returns it; undefined for an unknown id. */
  remove(name: PullName, id: string): KeptPullLetter | undefined {
    const [row] = this.#sql.exec<LetterRow>(`DELETE FROM pull_letters WHERE id = ? RETURNING ${COLUMNS}`, id).toArray();
    return row && read(name, row);
  }

  /** Hands off due dead letters, one after another. A failed hand-off delays only the hand-off of the same dead letter. */
  async handOff(name: PullName, { onDeadLetter }: PullPlan, env: unknown): Promise<void> {
    if (this.#underWay || !onDeadLetter) return;
    this.#underWay = true;
    try {
      for (let handed = 0; handed < HANDED_AT_ONCE; handed++) {
        const [row] = this.#sql
          .exec<LetterRow>(`SELECT ${COLUMNS} FROM pull_letters WHERE due_at <= ? ORDER BY due_at LIMIT 1`, Date.now())
          .toArray();
        if (!row) return;
        const { tries, dueAt: _, handOffError: __, ...letter } = read(name, row);
        const error = await handedOver(() => onDeadLetter(letter, env), HAND_OFF_LIMIT_MS);
        if (error === undefined) this.#sql.exec("DELETE FROM pull_letters WHERE sequence = ?", row.sequence);
        else this.#putOff(row.sequence, tries + 1, error);
      }
    } finally {
      this.#underWay = false;
    }
  }

  #putOff(sequence: number, tries: number, error: string): void {
    this.#sql.exec(
      "UPDATE pull_letters SET tries = ?, due_at = ?, error = ? WHERE sequence = ?",
      tries,
      nextHandOffAt(tries),
      error,
      sequence,
    );
  }
}

function read(name: PullName, row: LetterRow): KeptPullLetter {
  return {
    ...name,
    id: row.id,
    body: row.type === "json" ? JSON.parse(row.body as string) : row.body,
    contentType: row.type,
    reason: row.reason,
    attempts: row.attempts,
    sentAt: row.sent_at,
    deadAt: row.dead_at,
    tries: row.tries,
    dueAt: row.due_at,
    handOffError: row.error,
  };
}

const PULL = "pull:";

/** The name of the pull queue in a dead letter's queue name; undefined for a queue that is no pull queue. */
export function pullIn(queue: string): string | undefined {
  return queue.startsWith(PULL) ? queue.slice(PULL.length) : undefined;
}

/** The stored form of a pull queue's message in a dead letter: the message as sent, with bytes in base64. */
interface PulledBody {
  content_type: PullContentType;
  body: unknown;
}

const WHY = {
  exhausted: "The message was returned, or its lease expired, more often than the queue's retries allow.",
  expired: "The message was in the queue longer than the queue's retention.",
} as const;

/** Stores a pull queue's dead letter with the engine's dead letters. A repeated hand-off writes the same row. */
export async function keepLetter(letter: PullLetter, env: EngineEnv): Promise<void> {
  const { tenant: tenantId, id, body, contentType, reason, attempts, sentAt: firstAt } = letter;
  const queue = PULL + letter.queue;
  const kept: PulledBody = { content_type: contentType, body: body instanceof ArrayBuffer ? Buffer.from(body).toString("base64") : body };
  const row: DeadLetter = {
    ...{ id: digest("dead-letter", queue, tenantId, id), queue, tenantId, body: JSON.stringify(kept) },
    ...{ messageType: null, idempotencyKey: null, correlationId: null, instanceId: null, issues: null },
    ...{ reason, error: WHY[reason], attempts, firstAt, step: null, upstreamStatus: null, firstAttemptAt: null, lastAttemptAt: null },
    cause: causeId({ place: queue, code: reason, message: WHY[reason] }),
  };
  await query((await cellOf(env, tenantId)).DB, insertDeadLetters(JSON.stringify([row])));
  countLetters(env, [row]);
  logLine("warn", { log: "dead_letter", queue, dead_letter: row.id, code: reason });
}

/** The message of a pull queue's dead letter, in the form that `send` accepts. */
export function pulledMessage(letterBody: unknown): { body: unknown; contentType: PullContentType } {
  const { content_type: contentType, body } = letterBody as PulledBody;
  return { contentType, body: contentType === "bytes" ? Buffer.from(String(body), "base64") : body };
}
