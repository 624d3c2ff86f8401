import { MillraceError } from "../../contract/errors.ts";
import type { RowStatement, Statement } from "../../contract/sql.ts";
import { type Bindable, bindable } from "./bindable.ts";
import { merge } from "./merge.ts";
import { atomically, atomicallyCounted, type Row } from "./retry.ts";
import { troubleOf } from "./trouble.ts";

/**
 * Statements that are committed atomically, and the function that reads their results. The result of a row statement contains the rows of
 * all units with the same text, from which each unit selects its rows. `written` is the number of rows written by each statement, as D1
 * bills them; for a statement of several units, the unit's share.
 */
export interface Unit<T> {
  readonly statements: readonly (Statement | RowStatement)[];
  readonly read: (rows: Row[][], written: readonly number[]) => T;
  /**
   * Two units with the same `what` and different `by` are never in the same group: a statement of both units would read before either has
   * written.
   */
  readonly apart?: { readonly what: string; readonly by: string };
  /**
   * A query that settles the unit without its writes, because its outcome is already recorded; `read` returns undefined without an outcome.
   * The query is used after a group was refused.
   */
  readonly already?: { readonly look: Statement; readonly read: (rows: Row[]) => T | undefined };
}

/** An optional statement that is added to a group: no caller waits for it, and it may be written twice. */
export interface Along {
  readonly statement: Statement;
  /** A callback after the write; the argument is true if the row is known to be written. */
  readonly settled: (isWritten: boolean) => void;
}

interface Waiting {
  readonly parts: readonly Bindable[];
  readonly bytes: number;
  readonly apart: Unit<unknown>["apart"];
  readonly look: Statement | undefined;
  /** Settles the unit from the rows of its query; false if the rows contain no outcome. */
  readonly recognise: (rows: Row[]) => boolean;
  readonly settle: (rows: Row[][], written: readonly number[]) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Limits of one group of units, and of the waiting units. D1 runs a batch's statements one after another, and accepts values of at most 2
 * MB; an object has 128 MB of memory.
 */
const BOUNDS = { groupUnits: 100, groupBytes: 1_000_000, waitingUnits: 5000, waitingBytes: 16_000_000, answerWithinMs: 35_000 };

/** The delay before the next group after a database failure, in milliseconds; doubled after each further failure. */
const PAUSE_MS = { least: 250, most: 5000 };

/**
 * Commits the units of many callers in one D1 batch. While one batch is in progress, the units of the next batch are collected, so that the
 * size of a group follows the load and a single caller does not wait. Row statements with the same text become one statement. Two batches
 * never run at the same time.
 *
 * Units do not affect each other. A statement that cannot be bound is rejected before it waits. A refused group is committed in halves, one
 * after the other, until only the faulty unit gets the error. A database failure rejects the whole group, and delays the next group.
 */
export class GroupCommit {
  readonly #db: D1Database;
  readonly #bounds: typeof BOUNDS;
  readonly #along: () => Along | undefined;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #busy = false;
  #pauseMs = 0;

  constructor(db: D1Database, bounds: Partial<typeof BOUNDS> = {}, along: () => Along | undefined = () => undefined) {
    this.#db = db;
    this.#along = along;
    this.#bounds = { ...BOUNDS, ...bounds };
  }

  /**
   * Resolves with the unit's result after the commit. Rejects with D1's error if the unit itself cannot commit, with `config_invalid` or
   * `payload_too_large` if a statement cannot be bound, and with `unavailable` and a delay if too many units wait or the database fails.
   */
  commit<T>({ statements, read, already, apart }: Unit<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const parts = statements.map(bindable);
      const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
      this.#assertRoom(bytes);
      const answer = (rows: Row[][], written: readonly number[]) => resolve(read(rows, written));
      const recognise = (rows: Row[]) => {
        const known = already?.read(rows);
        if (known !== undefined) resolve(known);
        return known !== undefined;
      };
      this.#waiting.push({ parts, bytes, apart, look: already?.look, recognise, settle: orReject(answer, reject), fail: reject });
      this.#waitingBytes += bytes;
      if (!this.#busy) void this.#drain();
    });
  }

  #assertRoom(bytes: number): void {
    const { waitingUnits, waitingBytes } = this.#bounds;
    if (this.#waiting.length < waitingUnits && (this.#waiting.length === 0 || this.#waitingBytes + bytes <= waitingBytes)) return;
    throw new MillraceError("unavailable", "Too many writes are waiting. Nothing was written: repeat the request in a few seconds.", {
      // Randomized, so that callers refused together do not retry together.
      delayMs: 1000 + Math.floor(Math.random() * 2000),
    });
  }

  async #drain(): Promise<void> {
    this.#busy = true;
    try {
      while (this.#waiting.length > 0) {
        if (this.#pauseMs > 0) await scheduler.wait(this.#pauseMs);
        await this.#finish(this.#takeGroup());
      }
    } finally {
      this.#busy = false;
    }
  }

  #takeGroup(): Waiting[] {
    const { groupUnits, groupBytes } = this.#bounds;
    let bytes = 0;
    let size = 0;
    const by = new Map<string, string>();
    for (const unit of this.#waiting.slice(0, groupUnits)) {
      const { apart } = unit;
      const isApart = apart !== undefined && (by.get(apart.what) ?? apart.by) !== apart.by;
      if (size > 0 && (isApart || bytes + unit.bytes > groupBytes)) break;
      if (apart) by.set(apart.what, apart.by);
      bytes += unit.bytes;
      size++;
    }
    this.#waitingBytes -= bytes;
    const along = this.#along();
    return [...this.#waiting.splice(0, size), ...(along ? [companion(along)] : [])];
  }

  /** Commits a group. Every unit of the group is settled afterwards, also after an error. */
  async #finish(group: readonly Waiting[]): Promise<void> {
    try {
      await this.#commitInParts(group);
      this.#pauseMs = 0;
    } catch (error) {
      this.#pauseMs = Math.min(Math.max(PAUSE_MS.least, this.#pauseMs * 2), PAUSE_MS.most);
      // `fail` has no effect on units that are already settled.
      for (const unit of group) unit.fail(error);
    }
  }

  /** Commits a group in halves. Throws on a database failure, after which no further part of the group is tried. */
  async #commitInParts(group: readonly Waiting[]): Promise<void> {
    const parts = [group];
    let looked = false;
    for (let part = parts.pop(); part; part = parts.pop()) {
      const refusal = await this.#commitTogether(part);
      if (refusal === undefined) continue;
      if (part.length === 1) {
        part[0]?.fail(refusal);
        continue;
      }
      const open: readonly Waiting[] = looked ? part : await this.#unsettled(part);
      looked = true;
      const middle = open.length < part.length ? open.length : Math.ceil(open.length / 2);
      parts.push(...[open.slice(middle), open.slice(0, middle)].filter((half) => half.length > 0));
    }
  }

  /** Commits the units of a group in one batch. Returns D1's error if D1 refused the statements; throws if the database failed. */
  async #commitTogether(group: readonly Waiting[]): Promise<unknown> {
    try {
      const { statements, places } = merge(group);
      const answers = await atomicallyCounted(this.#db, statements, this.#bounds.answerWithinMs);
      const sharers = Map.groupBy(places.flat(), (place) => place);
      const share = (place: number) => (answers[place]?.rowsWritten ?? 0) / (sharers.get(place)?.length ?? 1);
      for (const [index, unit] of group.entries()) {
        const own = places[index] ?? [];
        unit.settle(
          own.map((place) => answers[place]?.rows ?? []),
          own.map(share),
        );
      }
      return undefined;
    } catch (error) {
      if (troubleOf(error) !== "fatal") throw error;
      return error;
    }
  }

  /**
   * Returns the units of a refused group that have no recorded outcome. One query settles the other units: their earlier commit was
   * ambiguous, or another attempt recorded their work. A hundred repeats therefore cost two batches instead of two hundred.
   */
  async #unsettled(group: readonly Waiting[]): Promise<Waiting[]> {
    const asked = group.filter(({ look }) => look !== undefined);
    const looks = asked.flatMap(({ look }) => look ?? []);
    const found = await atomically(this.#db, looks, this.#bounds.answerWithinMs);
    const known = new Set(asked.filter((unit, index) => unit.recognise(found[index] ?? [])));
    return group.filter((unit) => !known.has(unit));
  }
}

function companion({ statement, settled }: Along): Waiting {
  const part = bindable(statement);
  return {
    parts: [part],
    bytes: part.bytes,
    apart: undefined,
    look: undefined,
    recognise: () => false,
    settle: () => settled(true),
    fail: () => settled(false),
  };
}

function orReject<T extends unknown[]>(answer: (...given: T) => void, reject: (error: unknown) => void): (...given: T) => void {
  return (...given) => {
    try {
      answer(...given);
    } catch (error) {
      reject(error);
    }
  };
}
