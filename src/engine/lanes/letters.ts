import { backoffMs } from "../contract/duration.ts";
import { messageOf } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";
import { within } from "../contract/within.ts";
import type { LaneLetter, Plan } from "./definition.ts";

/** A dead letter in its lane, and how its hand-off goes. */
export interface KeptLetter extends LaneLetter {
  /** Hand-offs that failed. */
  tries: number;
  /** When the next hand-off is due; null where none is wanted. */
  dueAt: number | null;
  /** What the last hand-off said. */
  handOffError: string | null;
}

interface LetterRow extends Record<string, SqlStorageValue> {
  sequence: number;
  letter: string;
  tries: number;
  due_at: number | null;
  error: string | null;
}

const HAND_OFF_BACKOFF = { initialMs: 1000, maxMs: 300_000 };
export const MAX_ERROR_CHARACTERS = 500;

/** The dead letters of one lane: each stays until its hand-off has succeeded, or until a person removes it. The lane waits for none. */
export class Letters {
  readonly #sql: SqlStorage;
  #underWay = false;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  add(sequence: number, letter: LaneLetter, dueAt: number | null): void {
    const row = [sequence, letter.id, JSON.stringify(letter), dueAt];
    this.#sql.exec("INSERT INTO letters (sequence, id, letter, tries, due_at) VALUES (?, ?, ?, 0, ?)", ...row);
  }

  get count(): number {
    return this.#sql.exec<{ count: number }>("SELECT count(*) AS count FROM letters").one().count;
  }

  /** When the next hand-off is due; undefined when none is. */
  get dueAt(): number | undefined {
    return this.#sql.exec<{ due: number | null }>("SELECT min(due_at) AS due FROM letters").one().due ?? undefined;
  }

  /** Letters in the order in which their messages stood, after one of them. */
  list(after: string | undefined, most: number): KeptLetter[] {
    const sql = `SELECT sequence, letter, tries, due_at, error FROM letters
      WHERE sequence > coalesce((SELECT sequence FROM letters WHERE id = ?1), 0) ORDER BY sequence LIMIT ?2`;
    return this.#sql
      .exec<LetterRow>(sql, after ?? "", most)
      .toArray()
      .map(read);
  }

  /** Takes a letter out; undefined when there is none of this id. */
  remove(id: string): KeptLetter | undefined {
    const sql = "DELETE FROM letters WHERE id = ? RETURNING sequence, letter, tries, due_at, error";
    return this.#sql.exec<LetterRow>(sql, id).toArray().map(read)[0];
  }

  /** Hands over the letters that are due, one after another. A failure puts off that letter alone. */
  async handOff(plan: Plan, env: unknown): Promise<void> {
    const { onDeadLetter } = plan;
    if (this.#underWay || !onDeadLetter) return;
    this.#underWay = true;
    try {
      for (let row = this.#due(); row; row = this.#due()) {
        const { tries: _, dueAt: __, handOffError: ___, ...letter } = read(row);
        try {
          await within(Promise.resolve(onDeadLetter(letter, env)), plan.deadlineMs);
          this.remove(letter.id);
        } catch (error) {
          const dueAt = Date.now() + backoffMs(row.tries + 1, HAND_OFF_BACKOFF.initialMs, HAND_OFF_BACKOFF.maxMs);
          const said = beginning(messageOf(error), MAX_ERROR_CHARACTERS);
          this.#sql.exec("UPDATE letters SET tries = tries + 1, due_at = ?, error = ? WHERE sequence = ?", dueAt, said, row.sequence);
        }
      }
    } finally {
      this.#underWay = false;
    }
  }

  #due(): LetterRow | undefined {
    const sql = "SELECT sequence, letter, tries, due_at, error FROM letters WHERE due_at <= ? ORDER BY due_at LIMIT 1";
    return this.#sql.exec<LetterRow>(sql, Date.now()).toArray()[0];
  }
}

function read({ letter, tries, due_at, error }: LetterRow): KeptLetter {
  return { ...(JSON.parse(letter) as LaneLetter), tries, dueAt: due_at, handOffError: error };
}
