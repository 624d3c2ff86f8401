import { handedOver, nextHandOffAt } from "../contract/hand-off.ts";
import type { LaneLetter, Plan } from "./definition.ts";

/** A dead letter in its lane, and how its hand-off goes. */
export interface KeptLetter extends LaneLetter {
  /** Hand-offs that failed. */
  tries: number;
  /** When the next hand-off is due, where the lane has one. */
  dueAt: number;
  /** What the last hand-off said; null when it did not fail. */
  handOffError: string | null;
}

interface LetterRow extends Record<string, SqlStorageValue> {
  letter: string;
  tries: number;
  due_at: number;
  error: string | null;
}

/** The dead letters of one lane: each stays until its hand-off has succeeded, or a person has taken it out. The lane waits for none. */
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

  /** When the next hand-off is due; undefined when there is no letter. */
  get dueAt(): number | undefined {
    return this.#dueAt;
  }

  /** The letter whose hand-off is under way. */
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

  /** Letters in the order in which their messages stood, behind one of them. */
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

  /** Takes a letter out; undefined when there is none of this id. */
  remove(id: string): KeptLetter | undefined {
    const rows = this.#sql.exec<LetterRow>("DELETE FROM letters WHERE id = ? RETURNING letter, tries, due_at, error", id).toArray();
    this.#look();
    return rows.map(read)[0];
  }

  /** Hands over the letters that are due, one after another. A failure puts off that letter alone. */
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
