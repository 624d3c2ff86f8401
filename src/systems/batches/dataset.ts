import type { Envelope, Statement } from "millrace";
import type * as z from "zod";
import type { RowPage } from "./page.ts";

/** A kind of rows that batches can import, export and reconcile. Each dataset has its own file; `datasets.ts` lists all datasets. */
export interface Dataset<Row extends object = object> {
  readonly name: string;
  /** The columns of the dataset's CSV files, in the order of an export. */
  readonly columns: readonly string[];
  /** Columns that a CSV file must have. */
  readonly required: readonly string[];
  /** True if further columns are allowed: `fromCells` gets these columns by name. */
  readonly open: boolean;
  /** Maximum number of rows in one chunk of a batch. One write or one call processes all rows of a chunk. */
  readonly chunkRows: number;
  /** The schema of a row. The row is an object of a JSON Lines file, or the result of `fromCells` for a CSV row. */
  readonly schema: z.ZodType<Row>;
  /** The fields that a reconciliation compares. Each field has the value that replaces an absent value. */
  readonly compared: Readonly<Record<string, unknown>>;
  /** Converts a CSV row to the schema's input. An error of the conversion is reported for the row. */
  fromCells(cells: Record<string, string>): unknown;
  toCells(row: Row): string[];
  /** Returns the key of a row. The key is unique within the tenant. */
  keyOf(row: Row): string;
  /** Imports rows. The method returns statements for the chunk's commit, or makes repeatable calls. */
  take(env: Cloudflare.Env, by: Taker, rows: readonly Row[]): Promise<Taken>;
  /** Reads the stored rows with the given keys. */
  ours(env: Cloudflare.Env, tenantId: string, keys: readonly string[]): Promise<Row[]>;
  /**
   * True if the rows of the dataset never change. In this case an export contains exactly the rows that existed when the export started.
   */
  readonly dated: boolean;
  /**
   * Reads a page of stored rows after a cursor. The cursor is null for the first page. New rows do not change the order of existing rows.
   */
  page(env: Cloudflare.Env, tenantId: string, from: From): Promise<RowPage<Row>>;
}

/** The requested page of stored rows. */
export interface From {
  after: string | null;
  /** The time of the export in milliseconds. If the dataset is `dated`, rows that were added after this time are omitted. */
  asOf: number;
}

/** The batch that imports the rows. */
export interface Taker {
  batchId: string;
  /** The command that started the batch. */
  envelope: Envelope;
}

export interface Taken {
  statements?: readonly Statement[];
  /** The number of rows that were skipped, because an equal row was already stored. */
  skipped?: number;
  /** For each refused row, the reason of the refusal, by the row's index in `rows`. */
  refused?: ReadonlyMap<number, string>;
}
