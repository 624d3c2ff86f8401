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
  /** Maximum number of rows in one chunk of a batch. The rows of a chunk are written, or sent, together. */
  readonly chunkRows: number;
  /** The schema of a row: a JSON Lines object, or a CSV row after `fromCells`. */
  readonly schema: z.ZodType<Row>;
  /** The fields that a reconciliation compares, each with the value that stands for an absent one. */
  readonly compared: Readonly<Record<string, unknown>>;
  /** Converts a CSV row to the schema's input. An error of the conversion is reported for the row. */
  fromCells(cells: Record<string, string>): unknown;
  toCells(row: Row): string[];
  /** Returns the key of a row, which is unique within the tenant. */
  keyOf(row: Row): string;
  /** Imports rows, by statements for the chunk's commit or by repeatable calls. */
  take(env: Cloudflare.Env, by: Taker, rows: readonly Row[]): Promise<Taken>;
  /** Reads the stored rows with the given keys. */
  ours(env: Cloudflare.Env, tenantId: string, keys: readonly string[]): Promise<Row[]>;
  /** True if the rows of the dataset never change: an export then has the rows as of its start. */
  readonly dated: boolean;
  /** Reads a page of stored rows after the dataset's cursor; null for the first page. The order of rows is stable while rows are added. */
  page(env: Cloudflare.Env, tenantId: string, from: From): Promise<RowPage<Row>>;
}

/** The requested page of stored rows. */
export interface From {
  after: string | null;
  /** The time of the export in milliseconds: rows added later are omitted if rows are dated. */
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
  /** The number of rows that existed unchanged. */
  skipped?: number;
  /** The reasons why single rows were refused, by their index in `rows`. */
  refused?: ReadonlyMap<number, string>;
}
