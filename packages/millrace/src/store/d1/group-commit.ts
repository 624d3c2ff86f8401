import { MillraceError } from "../../contract/errors.ts";
import type { RowStatement, Statement } from "../../contract/sql.ts";
import { type Bindable, bindable } from "./bindable.ts";
import { merge } from "./merge.ts";
import { atomically, atomicallyCounted, type Row } from "./retry.ts";
import { troubleOf } from "./trouble.ts";

/**
 * Statements that commit together or not at all, and how to read their answer. Row statements answer for all units that have the same one:
 * each picks its own rows. `written` says how many rows each statement wrote, as D1 bills them; of a shared one its share.
 */
export interface Unit<T> {
  readonly statements: readonly (Statement | RowStatement)[];
  readonly read: (rows: Row[][], written: readonly number[]) => T;
  /**
   * Two units of one `what` and different `by` are never in one group: a statement that both share would look before either has written.
   */
  readonly apart?: { readonly what: string; readonly by: string };
  /**
   * What settles the unit without its writes, because its outcome is already there; `read` answers undefined when it is not. Asked when a
   * group was refused.
   */
  readonly already?: { readonly look: Statement; readonly read: (rows: Row[]) => T | undefined };
}

/** A statement that goes along with a group which commits anyway: nobody waits for it, and it may be written twice. */
export interface Along {
  readonly statement: Statement;
  /** Told whether it is known to be written. */
  readonly settled: (isWritten: boolean) => void;
}

interface Waiting {
  readonly parts: readonly Bindable[];
  readonly bytes: number;
  readonly apart: Unit<unknown>["apart"];
  readonly look: Statement | undefined;
  /** Settles the unit by what its look found; false when that does not. */
  readonly recognise: (rows: Row[]) => boolean;
  readonly settle: (rows: Row[][], written: readonly number[]) => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Bounds of one group, and of what may wait behind it. D1 runs a batch's statements one after another, and takes values of at most 2 MB; an
 * object has 128 MB.
 */
const BOUNDS = { groupUnits: 100, groupBytes: 1_000_000, waitingUnits: 5000, waitingBytes: 16_000_000, answerWithinMs: 35_000 };

/** Pause before the next group after the database was in trouble: doubled while that lasts. */
const PAUSE_MS = { least: 250, most: 5000 };

/**
 * Commits the units of many callers in one D1 batch: while one batch is under way the next one gathers, so the group is as
 * large as the load asks and a lone caller waits for nobody. Row statements of the same text become one. Never two batches at once.
 *
 * No unit stops another. What cannot be bound is rejected before it waits; a group that is refused is committed in halves, one after the
 * other, until only the one at fault sees the error; trouble of the database is told to the whole group, and the next one waits a while.
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
   * Resolves with the unit's answer once it is committed. Rejects with D1's error if the unit itself cannot commit, with `config_invalid`
   * or
   * `payload_too_large` if it cannot be bound, and with `unavailable`, with a time to come back, if too much waits already or the database
   * is in trouble.
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
    throw new MillraceError(
      "unavailable",
      "As much waits to be written as can be held. Nothing was written: send the same again in a few seconds.",
      {
        // Spread, so that those who were refused together do not come back together.
        delayMs: 1000 + Math.floor(Math.random() * 2000),
      },
    );
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

  /** Every unit of the group has its answer afterwards, whatever happens. */
  async #finish(group: readonly Waiting[]): Promise<void> {
    try {
      await this.#commitInParts(group);
      this.#pauseMs = 0;
    } catch (error) {
      this.#pauseMs = Math.min(Math.max(PAUSE_MS.least, this.#pauseMs * 2), PAUSE_MS.most);
      // Those that were settled before hear nothing of it.
      for (const unit of group) unit.fail(error);
    }
  }

  /** Throws the database's trouble: what is left of the group then is not tried in parts. */
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

  /** Answers why D1 refused what was asked; throws when it was in no state to judge. */
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
   * After a refusal: those whose outcome is not there yet. The others, whose commit was ambiguous before or which somebody else was
   * quicker with, are settled by one look, so that a hundred repeats cost two batches and not two hundred.
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
