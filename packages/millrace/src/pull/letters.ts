import { handedOver, nextHandOffAt } from "../contract/hand-off.ts";
import type { PullLetter, PullPlan } from "./definition.ts";
import type { PullContentType } from "./message.ts";
import type { PullName } from "./pull-name.ts";

/** A dead letter in its queue, and the state of its hand-off. */
export interface KeptPullLetter extends PullLetter {
  /** Failed hand-offs. */
  tries: number;
  /** When the next hand-off is due; null if the queue has no handler. */
  dueAt: number | null;
  /** The error of the last hand-off. */
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

/** Longest call of `onDeadLetter`. */
const HAND_OFF_LIMIT_MS = 60_000;
/** Hand-offs in one round: an alarm may run for 15 minutes. */
const HANDED_AT_ONCE = 10;

const COLUMNS = "sequence, id, type, body, reason, attempts, sent_at, dead_at, tries, due_at, error";

/**
 * The dead letters of one queue. Each letter stays until its hand-off succeeds or an operator removes it. The queue does not wait for its
 * dead letters.
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

  /** Letters in the order in which their messages were sent, after an id. */
  list(name: PullName, after: string | undefined, most: number): KeptPullLetter[] {
    const sql = `SELECT ${COLUMNS} FROM pull_letters
      WHERE sequence > coalesce((SELECT sequence FROM pull_letters WHERE id = ?1), 0) ORDER BY sequence LIMIT ?2`;
    return this.#sql
      .exec<LetterRow>(sql, after ?? "", most)
      .toArray()
      .map((row) => read(name, row));
  }

  /** Removes a letter and returns it; undefined for an unknown id. */
  remove(name: PullName, id: string): KeptPullLetter | undefined {
    const [row] = this.#sql.exec<LetterRow>(`DELETE FROM pull_letters WHERE id = ? RETURNING ${COLUMNS}`, id).toArray();
    return row && read(name, row);
  }

  /** Hands over due letters, one after another. A failure delays only that letter. */
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
