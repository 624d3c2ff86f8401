import type { Envelope, Statement } from "millrace";
import type * as z from "zod";
import type { RowPage } from "./page.ts";

/** A kind of rows that batches can take in, write out and compare. One file per dataset; `datasets.ts` lists them. */
export interface Dataset<Row extends object = object> {
  readonly name: string;
  /** The columns of its CSV files, in the order an export writes them. */
  readonly columns: readonly string[];
  /** Columns without which a CSV file is refused at the door. */
  readonly required: readonly string[];
  /** True if further columns are welcome: `fromCells` finds them by their names. */
  readonly open: boolean;
  /** Most rows of one chunk: what is written, or called, at once. */
  readonly chunkRows: number;
  /** What a row must be: a JSON Lines object as it stands, a CSV row after `fromCells`. */
  readonly schema: z.ZodType<Row>;
  /** What a reconciliation compares, and as what one that is absent counts. */
  readonly compared: Readonly<Record<string, unknown>>;
  /** A CSV row as the schema's input. What it throws is the row's problem. */
  fromCells(cells: Record<string, string>): unknown;
  toCells(row: Row): string[];
  /** Tells rows apart, within the tenant. */
  keyOf(row: Row): string;
  /** Takes rows in: by statements that are committed with the chunk, or by calls that bear repetition. */
  take(env: Cloudflare.Env, by: Taker, rows: readonly Row[]): Promise<Taken>;
  /** Our rows with these keys. */
  ours(env: Cloudflare.Env, tenantId: string, keys: readonly string[]): Promise<Row[]>;
  /** True if its rows never change: a page then has them as of the moment that is asked for. */
  readonly dated: boolean;
  /** A page of our rows behind a cursor, which is the dataset's own; from the first for null. In one order, whatever comes meanwhile. */
  page(env: Cloudflare.Env, tenantId: string, from: From): Promise<RowPage<Row>>;
}

/** Which page is asked for. */
export interface From {
  after: string | null;
  /** Rows that came later are left out where rows are dated. Milliseconds. */
  asOf: number;
}

/** Whose batch takes the rows in. */
export interface Taker {
  batchId: string;
  /** The command that started it. */
  envelope: Envelope;
}

export interface Taken {
  statements?: readonly Statement[];
  /** Rows that were there already, just so. */
  skipped?: number;
  /** Why single rows, by their places in `rows`, were not taken. */
  refused?: ReadonlyMap<number, string>;
}
