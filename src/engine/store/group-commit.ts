import type { Statement } from "../contract/sql.ts";
import { batch } from "./retry.ts";

/** Statements that commit together or not at all, and how to read their answer. */
export interface Unit<T> {
  readonly statements: readonly Statement[];
  readonly read: (rows: Record<string, unknown>[][]) => T;
}

interface Waiting {
  statements: readonly Statement[];
  settle: (rows: Record<string, unknown>[][]) => void;
  fail: (error: unknown) => void;
}

/** Statements in one group. D1 runs them one after another; beyond this a group only makes its first members wait. */
const MAX_STATEMENTS = 300;

/**
 * Commits the units of many callers in one D1 batch: while one batch is under way the next one gathers, so the group is as
 * large as the load asks and a lone caller waits for nobody. A unit that cannot commit aborts the batch; the group's
 * members are then committed one by one, so that only the one at fault sees the error.
 */
export class GroupCommit {
  readonly #db: D1Database;
  #waiting: Waiting[] = [];
  #busy = false;

  constructor(db: D1Database) {
    this.#db = db;
  }

  /** Resolves with the unit's answer once it is committed. Rejects with D1's error if the unit itself cannot commit. */
  commit<T>(unit: Unit<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle = (rows: Record<string, unknown>[][]) => {
        try {
          resolve(unit.read(rows));
        } catch (error) {
          reject(error);
        }
      };
      this.#waiting.push({ statements: unit.statements, settle, fail: reject });
      if (!this.#busy) void this.#drain();
    });
  }

  async #drain(): Promise<void> {
    this.#busy = true;
    while (this.#waiting.length > 0) await this.#commitGroup(this.#takeGroup());
    this.#busy = false;
  }

  #takeGroup(): Waiting[] {
    let statements = 0;
    let size = 0;
    for (const unit of this.#waiting) {
      statements += unit.statements.length;
      if (size > 0 && statements > MAX_STATEMENTS) break;
      size++;
    }
    return this.#waiting.splice(0, size);
  }

  async #commitGroup(group: Waiting[]): Promise<void> {
    try {
      const results = await batch(
        this.#db,
        group.flatMap((unit) => unit.statements),
      );
      let next = 0;
      for (const unit of group) {
        unit.settle(results.slice(next, next + unit.statements.length));
        next += unit.statements.length;
      }
    } catch (error) {
      if (group.length === 1) group[0]?.fail(error);
      else await Promise.all(group.map((unit) => this.#commitGroup([unit])));
    }
  }
}
