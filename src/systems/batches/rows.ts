import { errors, texts } from "millrace";
import type { Batch } from "./batch.ts";
import { cutCsv, fromCell } from "./csv.ts";
import { type Cut, type Piece, skipLine, type Window } from "./cut.ts";
import type { Dataset } from "./dataset.ts";
import { readWindow } from "./file.ts";
import { cutJsonl, readJson } from "./jsonl.ts";
import { CHUNK_BYTES } from "./limits.ts";
import type { Problem } from "./report.ts";

/** A position in a batch's file. */
export interface Place {
  /** The number of bytes before the position. */
  offset: number;
  /** The number of the line that begins at or contains the position. Lines are numbered from 1. */
  line: number;
  /** The number of rows before the position. Both valid and invalid rows count. */
  rows: number;
  /** True if the position is inside a line that is too long to be a row. */
  skipping: boolean;
}

/** A row that was refused. The input is stored for another import. If the row could not be read, the input is missing. */
export interface FailedRow extends Problem {
  input?: unknown;
}

/** One chunk of a file: the chunk's valid rows with their row numbers, the chunk's problems, and the position of the next chunk. */
export interface Chunk<Row> {
  rows: { row: number; line: number; value: Row; input: unknown; raw: string }[];
  problems: FailedRow[];
  next: Place;
  atEnd: boolean;
}

/** Returns the position at which a batch starts to read. */
export function firstPlace({ layout }: Batch): Place {
  return { offset: layout?.offset ?? 0, line: layout?.line ?? 1, rows: 0, skipping: false };
}

/** Reads one chunk of a file row by row. Each invalid row becomes a separate problem. */
export async function readChunk<Row extends object>(
  bucket: R2Bucket,
  batch: Batch,
  dataset: Dataset<Row>,
  place: Place,
): Promise<Chunk<Row>> {
  const bytes = await readWindow(bucket, batch, place.offset);
  const window: Window = { bytes, line: place.line, atEnd: place.offset + bytes.length >= (batch.totalBytes ?? 0) };
  const { pieces, at, line, skipping } = cut(window, batch, dataset, place.skipping);
  const next = { offset: place.offset + at, line, rows: place.rows + pieces.length, skipping };
  const chunk: Chunk<Row> = { rows: [], problems: [], next, atEnd: next.offset >= (batch.totalBytes ?? 0) };
  for (const [index, piece] of pieces.entries()) {
    const row = place.rows + index + 1;
    const raw = shown(bytes, piece);
    const read = piece.content === undefined ? { problem: piece.problem ?? "cannot be read" } : readRow(dataset, piece.content);
    const about = { row, line: piece.line, raw };
    if ("value" in read) chunk.rows.push({ ...about, ...read });
    else chunk.problems.push({ ...about, ...read });
  }
  return chunk;
}

/** The content of a row. For a JSON Lines file the content is a string, and for a CSV file the content is cells with names. */
type Content = string | Record<string, string>;

function cut(window: Window, { format, formulas, layout }: Batch, { chunkRows }: Dataset, skipping: boolean): Cut<Content> {
  if (skipping) return skipLine(window);
  const bounds = { bytes: CHUNK_BYTES, rows: chunkRows };
  if (format === "jsonl") return cutJsonl(window, bounds);
  const { delimiter = ",", columns = [] } = layout ?? {};
  const { pieces, ...rest } = cutCsv(window, { delimiter, width: columns.length }, bounds);
  const named = ({ content, ...piece }: Piece<string[]>): Piece<Content> =>
    content === undefined
      ? piece
      : { ...piece, content: Object.fromEntries(columns.map((column, index) => [column, fromCell(content[index] ?? "", formulas)])) };
  return { ...rest, pieces: pieces.map(named) };
}

function readRow<Row extends object>(
  dataset: Dataset<Row>,
  content: Content,
): { value: Row; input: unknown } | { problem: string; input?: unknown } {
  try {
    const input = typeof content === "string" ? readJson(content) : dataset.fromCells(content);
    const parsed = dataset.schema.safeParse(input);
    if (parsed.success) return { value: parsed.data, input };
    const issues = errors.issuesOf(parsed.error).slice(0, 3);
    return {
      input,
      problem: texts.beginning(issues.map(({ path, message }) => (path ? `${path}: ${message}` : message)).join("; "), 500),
    };
  } catch (error) {
    return { problem: texts.beginning(errors.messageOf(error), 500) };
  }
}

const SHOWN_BYTES = 200;
const DECODER = new TextDecoder();

/** Returns the first characters of a row, so that the file's author finds the row. */
function shown(bytes: Uint8Array, { start, end }: Piece<unknown>): string {
  return DECODER.decode(bytes.subarray(start, Math.min(end, start + SHOWN_BYTES)))
    .replace(/\r?\n$/, "")
    .toWellFormed();
}
