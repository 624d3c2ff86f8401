import { handedOver, nextHandOffAt } from "../contract/hand-off.ts";
import type { LaneLetter, Plan } from "./definition.ts";

/** A dead letter of a lane, and the state of its hand-off. */
export interface KeptLetter extends LaneLetter {
  /** Failed hand-offs. */
  tries: number;
  /** When the next hand-off of the dead letter is due, if the lane has a handler for dead letters. */
  dueAt: number;
  /** The error of the last hand-off; null if no hand-off has failed. */
  handOffError: string | null;
}

interface LetterRow extends Record<string, SqlStorageValue> {
  letter: string;
  tries: number;
  due_at: number;
  error: string | null;
}

/**
 * The dead letters of one lane. Each dead letter remains until its hand-off succeeds or an operator removes it. The lane delivers messages
 * independently of its dead letters.
 */
export class Letters {
  readonly #sql: SqlStorage;
  #underWay = false;
  #handing: string | undefined;
  #dueAt: number | undefined;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#look();
  }

  static make(sql: SqlStorage): void {
    sql.exec(`CREATE TABLE IF NOT EXISTS letters (
      sequence INTEGER PRIMARY KEY, id TEXT NOT NULL, letter TEXT NOT NULL, tries INTEGER NOT NULL, due_at INTEGER NOT NULL, error TEXT
    ) STRICT`);
  }

  has(id: string): boolean {
    return this.#sql.exec("SELECT 1 FROM letters WHERE id = ?", id).toArray().length > 0;
  }

  /** When the next hand-off of a dead letter is due; undefined if the lane has no dead letter. */
  get dueAt(): number | undefined {
    return this.#dueAt;
  }

  /** The id of the dead letter that is being handed off. */
  get handing(): string | undefined {
    return this.#handing;
  }

  get count(): number {
    return this.#sql.exec<{ count: number }>("SELECT count(*) AS count FROM letters").one().count;
  }

  add(sequence: number, letter: LaneLetter): void {
    const row = [sequence, letter.id, JSON.stringify(letter), letter.parkedAt];
    this.#sql.exec("INSERT INTO letters (sequence, id, letter, tries, due_at) VALUES (?, ?, ?, 0, ?)", ...row);
    this.#look();
  }

  /** Returns dead letters in the order of their messages, after an id. */
  list(after: string | undefined, most: number): KeptLetter[] {
    return this.#sql
      .exec<LetterRow>(
        `SELECT letter, tries, due_at, error FROM letters
         WHERE sequence > coalesce((SELECT sequence FROM letters WHERE id = ?1), 0) ORDER BY sequence LIMIT ?2`,
        after ?? "",
        most,
      )
      .toArray()
      .map(read);
  }

  /** Removes a dead letter and returns it; undefined for an unknown id. */
  remove(id: string): KeptLetter | undefined {
    const rows = this.#sql.exec<LetterRow>("DELETE FROM letters WHERE id = ? RETURNING letter, tries, due_at, error", id).toArray();
    this.#look();
    return rows.map(read)[0];
  }

  /** Hands off the due dead letters, one after another. A failed hand-off delays only its dead letter. */
  async handOff({ onDeadLetter, deadlineMs }: Plan, env: unknown): Promise<void> {
    if (this.#underWay || !onDeadLetter) return;
    this.#underWay = true;
    try {
      for (let due = this.#due(); due; due = this.#due()) {
        const { tries, dueAt: _, handOffError: __, ...letter } = due;
        this.#handing = letter.id;
        const error = await handedOver(() => onDeadLetter(letter, env), deadlineMs);
        this.#handing = undefined;
        if (error === undefined) this.remove(letter.id);
        else this.#putOff(letter.id, tries + 1, error);
      }
    } finally {
      this.#underWay = false;
    }
  }

  #due(): KeptLetter | undefined {
    const now = Date.now();
    if (this.#dueAt === undefined || this.#dueAt > now) return undefined;
    const due = "SELECT letter, tries, due_at, error FROM letters WHERE due_at <= ? ORDER BY due_at, sequence LIMIT 1";
    return this.#sql.exec<LetterRow>(due, now).toArray().map(read)[0];
  }

  #putOff(id: string, tries: number, error: string): void {
    this.#sql.exec("UPDATE letters SET tries = ?, due_at = ?, error = ? WHERE id = ?", tries, nextHandOffAt(tries), error, id);
    this.#look();
  }

  #look(): void {
    this.#dueAt = this.#sql.exec<{ due: number | null }>("SELECT min(due_at) AS due FROM letters").one().due ?? undefined;
  }
}

function read({ letter, tries, due_at, error }: LetterRow): KeptLetter {
  return { ...(JSON.parse(letter) as LaneLetter), tries, dueAt: due_at, handOffError: error };
}
