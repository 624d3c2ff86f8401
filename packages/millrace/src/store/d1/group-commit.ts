import { MillraceError } from "../../contract/errors.ts";
import type { RowStatement, Statement } from "../../contract/sql.ts";
import { type Bindable, bindable } from "./bindable.ts";
import { atomically, atomicallyCounted, type Row } from "./retry.ts";
import { troubleOf } from "./trouble.ts";

/**
 * Statements that are committed atomically, and the function that reads their results. The result of a row statement contains the rows of
 * all units whose statements have the same text, and each unit selects its own rows. `written` is the count of rows that each statement
 * wrote, as D1 bills them. If several units share a statement, each unit gets its share of the statement's count of written rows.
 */
export interface Unit<T> {
  readonly statements: readonly (Statement | RowStatement)[];
  readonly read: (rows: Row[][], written: readonly number[]) => T;
  /**
   * Two units with the same `what` and different `by` are never in the same group. In the same group, a statement that two units share
   * would read before either unit has written.
   */
  readonly apart?: { readonly what: string; readonly by: string };
  /**
   * A query for the recorded outcome of the unit. After a group was refused, a unit with a recorded outcome is settled without its writes.
   * `read` returns undefined if the unit has no recorded outcome.
   */
  readonly already?: { readonly look: Statement; readonly read: (rows: Row[]) => T | undefined };
}

/** An optional statement that is added to a group. No caller waits for the statement, and it may be executed twice. */
export interface Along {
  readonly statement: Statement;
  /** A callback after the commit. The argument is true if the row was certainly written. */
  readonly settled: (isWritten: boolean) => void;
}

interface Waiting {
  readonly parts: readonly Bindable[];
  readonly bytes: number;
  readonly apart: Unit<unknown>["apart"];
  readonly look: Statement | undefined;
  /** Settles the unit from the rows of its query. Returns false if the rows contain no outcome. */
  readonly recognise: (rows: Row[]) => boolean;
  readonly settle: (rows: Row[][], written: readonly number[]) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Limits of one group of units, and of the waiting units. D1 runs a batch's statements in sequence, and accepts values of at most 2 MB. A
 * Durable Object has 128 MB of memory.
 */
const BOUNDS = { groupUnits: 100, groupBytes: 1_000_000, waitingUnits: 5000, waitingBytes: 16_000_000, answerWithinMs: 35_000 };

/** The delay before the next group after a database failure, in milliseconds. The delay doubles after each further failure. */
const PAUSE_MS = { least: 250, most: 5000 };

/**
 * Commits the units of many callers in one D1 batch. While a batch is in progress, units are collected for the next batch. Therefore groups
 * grow with the load. A unit that comes while no batch is in progress waits at most one turn of the event loop. Row statements with the
 * same text become one statement. Two batches never run at the same time.
 *
 * Units do not affect each other. A unit with a statement that cannot be bound is rejected at once. A refused group is split into halves,
 * which are committed in sequence and split again, until only the faulty unit gets the error. A database failure rejects the whole group,
 * and delays the next group.
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
   * Resolves with the unit's result after the commit. Rejects with D1's error if D1 refuses the unit, and with `config_invalid` or
   * `payload_too_large` if a statement cannot be bound. Rejects with `unavailable` and a delay if too many units wait or the database
   * fails.
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
      // The delay is random, so that callers that were refused at the same time do not retry at the same time.
      delayMs: 1000 + Math.floor(Math.random() * 2000),
    });
  }

  async #drain(): Promise<void> {
    this.#busy = true;
    try {
      while (this.#waiting.length > 0) {
        if (this.#pauseMs > 0) await scheduler.wait(this.#pauseMs);
        const group = this.#takeGroup();
        await this.#finish(group);
        // Callers often have their next units ready. Then these units and the units that wait already become one group.
        if (group.length + this.#waiting.length > 1) await scheduler.wait(0);
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
      // `fail` has no effect on a unit that is already settled.
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

  /** Commits the units of a group in one batch. Returns D1's error if D1 refused the statements. Throws if the database failed. */
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
   * Returns the units of a refused group that have no recorded outcome. One batch of queries settles the units with a recorded outcome,
   * which an earlier ambiguous commit or another attempt has recorded. Therefore a hundred repeated units need two batches instead of two
   * hundred.
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

/** Maximum bytes of the rows in one parameter. */
const MAX_ROWS_BYTES = 1_500_000;

/**
 * The statements of a whole group, and the positions of each unit's results. Row statements with the same text become one statement, or a
 * few statements if their rows are large.
 */
function merge(group: readonly { readonly parts: readonly Bindable[] }[]): { statements: Statement[]; places: number[][] } {
  const statements: { text: string; params: Statement["params"]; rows?: string[]; bytes: number }[] = [];
  const open = new Map<string, number>();
  const place = ({ text, params, row, bytes }: Bindable): number => {
    if (row === undefined) return statements.push({ text, params, bytes }) - 1;
    const known = open.get(text);
    const shared = known === undefined ? undefined : statements[known];
    if (known !== undefined && shared && shared.bytes + bytes <= MAX_ROWS_BYTES) {
      shared.rows?.push(row);
      shared.bytes += bytes;
      return known;
    }
    const next = statements.push({ text, params, rows: [row], bytes }) - 1;
    open.set(text, next);
    return next;
  };
  const places = group.map((unit) => unit.parts.map(place));
  return { statements: statements.map(({ text, params, rows }) => ({ text, params: rows ? [`[${rows.join(",")}]`] : params })), places };
}
