import type { RowStatement, Statement } from "../contract/sql.ts";
import { batch, type Row } from "./retry.ts";

/** Statements that commit together or not at all, and how to read their answer. Row statements answer nothing. */
export interface Unit<T> {
  readonly statements: readonly (Statement | RowStatement)[];
  readonly read: (rows: Row[][]) => T;
}

interface Waiting {
  statements: readonly (Statement | RowStatement)[];
  settle: (rows: Row[][]) => void;
  fail: (error: unknown) => void;
}

/** Bounds of one group. D1 runs its statements one after another, and takes values of at most 2 MB. */
const MAX_UNITS = 100;
const MAX_CHARACTERS = 500_000;

/**
 * Commits the units of many callers in one D1 batch: while one batch is under way the next one gathers, so the group is as
 * large as the load asks and a lone caller waits for nobody. Row statements of the same text become one. A unit that cannot
 * commit aborts the batch; the group's members are then committed one by one, so that only the one at fault sees the error.
 */
export class GroupCommit {
  readonly #db: D1Database;
  #waiting: Waiting[] = [];
  #busy = false;

  constructor(db: D1Database) {
    this.#db = db;
  }

  /** Resolves with the unit's answer once it is committed. Rejects with D1's error if the unit itself cannot commit. */
  commit<T>({ statements, read }: Unit<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle = (rows: Row[][]) => {
        try {
          resolve(read(rows));
        } catch (error) {
          reject(error);
        }
      };
      this.#waiting.push({ statements, settle, fail: reject });
      if (!this.#busy) void this.#drain();
    });
  }

  async #drain(): Promise<void> {
    this.#busy = true;
    while (this.#waiting.length > 0) await this.#commitGroup(this.#takeGroup());
    this.#busy = false;
  }

  #takeGroup(): Waiting[] {
    let characters = 0;
    let size = 0;
    for (const unit of this.#waiting.slice(0, MAX_UNITS)) {
      characters += unit.statements.reduce((sum, statement) => sum + weight(statement), 0);
      if (size > 0 && characters > MAX_CHARACTERS) break;
      size++;
    }
    return this.#waiting.splice(0, size);
  }

  async #commitGroup(group: Waiting[]): Promise<void> {
    const merged = merge(group);
    let answers: Row[][];
    try {
      answers = await batch(this.#db, merged.statements);
    } catch (error) {
      if (group.length === 1) group[0]?.fail(error);
      else await Promise.all(group.map((unit) => this.#commitGroup([unit])));
      return;
    }
    for (const [index, unit] of group.entries()) unit.settle((merged.places[index] ?? []).map((place) => answers[place] ?? []));
  }
}

/** One list of statements for a whole group, and where in it each unit finds its own. */
function merge(group: readonly Waiting[]): { statements: Statement[]; places: number[][] } {
  const statements: { text: string; params: Statement["params"]; rows?: unknown[] }[] = [];
  const shared = new Map<string, number>();
  const place = (statement: Statement | RowStatement): number => {
    if (!("row" in statement)) return statements.push(statement) - 1;
    const known = shared.get(statement.text);
    if (known !== undefined) {
      statements[known]?.rows?.push(statement.row);
      return known;
    }
    shared.set(statement.text, statements.length);
    return statements.push({ text: statement.text, params: [], rows: [statement.row] }) - 1;
  };
  const places = group.map((unit) => unit.statements.map(place));
  return { statements: statements.map(({ text, params, rows }) => ({ text, params: rows ? [JSON.stringify(rows)] : params })), places };
}

function weight(statement: Statement | RowStatement): number {
  const values = "row" in statement ? Object.values(statement.row) : statement.params;
  return values.reduce<number>((sum, value) => sum + (typeof value === "string" ? value.length : 8), 0);
}
