import type { EngineEnv } from "../contract/bindings.ts";
import type { Statement } from "../contract/sql.ts";
import { query } from "../store/d1/retry.ts";

/** A check of the engine, which can use all bindings of the engine. */
interface EngineCheck extends Omit<Check, "kinds" | "slice"> {
  readonly kinds: Readonly<Record<string, { says: string; fix?: (env: EngineEnv, found: Divergence) => Promise<unknown> }>>;
  readonly slice: (env: EngineEnv, from: string | null) => Promise<Checked>;
}

export function engineCheck({ kinds, slice, ...check }: EngineCheck): Check {
  return { ...check, kinds: kinds as Check["kinds"], slice: (env, from) => slice(env as unknown as EngineEnv, from) };
}

/** A divergence of a row. Default of `what` and of `tenantId`: the columns `id` and `tenant_id` of the row. */
type Found = Pick<Divergence, "kind" | "detail"> & Partial<Divergence>;

type Place = readonly (string | number)[];

interface Scan<Row, At extends Place> extends Omit<EngineCheck, "slice"> {
  /** Maximum number of rows in one slice. */
  readonly rows: number;
  /** The position of the first slice. */
  readonly start: At;
  /** Selects the rows from a position on, in the order of their positions. */
  readonly select: (from: At, limit: number) => Statement;
  readonly place: (row: Row) => At;
  /** Compares a row with the other record. A list may contain false or 0 in place of a divergence. */
  readonly find: (row: Row, env: EngineEnv) => readonly (Found | false | 0)[] | Promise<readonly (Found | false | 0)[]>;
}

/** A check that scans the rows of one ordered statement. */
export function scan<Row extends { readonly id?: string; readonly tenant_id: string | null }, At extends Place>({
  rows: most,
  start,
  select,
  place,
  find,
  ...check
}: Scan<Row, At>): Check {
  const placeOf = (row: Row) => JSON.stringify(place(row));
  return engineCheck({
    ...check,
    async slice(env, from) {
      const rows = await query<Row>(env.DB, select(from === null ? start : JSON.parse(from), most + 1));
      const found = rows.slice(0, most).map(async (row) => {
        const about = { what: row.id ?? "", tenantId: row.tenant_id, place: placeOf(row) };
        return (await find(row, env)).flatMap((one) => (one ? { ...about, ...one } : []));
      });
      const next = rows[most];
      return { found: (await Promise.all(found)).flat(), next: next === undefined ? null : placeOf(next) };
    },
  });
}

/** The age of a record, as a text for `detail`. */
export function ageOf(ms: number): string {
  const minutes = Math.max(0, Math.floor(ms / 60_000));
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
}

/** A difference between two records of the same item. */
export interface Divergence {
  /** The kind of the divergence, which is a key of the check's `kinds`. */
  readonly kind: string;
  /** The id of an instance or message, at most 200 characters; a digest of the name for an item with a name that a user chose. */
  readonly what: string;
  /** The tenant; null when the record belongs to no tenant. */
  readonly tenantId: string | null;
  /** The start of a scan's slice whose first row has this divergence. */
  readonly place: string;
  /**
   * The conflicting values of both records: statuses, names of workflows and queues, counts, ages. The value never contains a tenant's
   * names, subjects or payloads.
   */
  readonly detail: string;
}

export interface Checked {
  readonly found: readonly Divergence[];
  /** The start of the scan's next slice; null at the end of the scan. */
  readonly next: string | null;
}

/** A kind of divergence: one way in which two records can differ. */
interface Kind {
  /** The description of the difference for operators, as a sentence. */
  readonly says: string;
  /**
   * The repair, which is called after a second check has found the same divergence. The repair may be called more than once, and must
   * change nothing if the records already agree. Without a repair the divergence is only counted and reported.
   */
  readonly fix?: (env: Cloudflare.Env, found: Divergence) => Promise<unknown>;
}

/** A comparison of two sets of records, which scans the first set slice by slice. */
export interface Check {
  /** The check's unique name, under which the keeper stores the position of its scan. */
  readonly name: string;
  /** Hours from the end of one scan to the start of the next scan. */
  readonly everyHours: number;
  /** The kinds of divergence. Names are lower case words with underscores, unique among all checks. */
  readonly kinds: Readonly<Record<string, Kind>>;
  /**
   * Compares a bounded part of the records, from `from` (null: the beginning) to `next`. The call only reads. Changes during the read may
   * cause a false finding. Therefore a finding counts only after a later slice from its `place` finds the same divergence again.
   */
  readonly slice: (env: Cloudflare.Env, from: string | null) => Promise<Checked>;
}
