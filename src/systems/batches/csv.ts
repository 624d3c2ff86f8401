import { CsvError, parse } from "csv-parse/sync";
import { stringify } from "csv-stringify/sync";
import { escapeFormulas, unescapeFormulas } from "../contacts/written.ts";
import { type Bounds, bytesProblem, type Cut, countLines, NEWLINE, type Piece, TOO_LARGE, type Window } from "./cut.ts";
import { MAX_ROW_BYTES } from "./limits.ts";

/**
 * How the cells of a CSV file are written and read. `escape` changes cells so that a spreadsheet does not run them as formulas. `keep`
 * preserves the exact text.
 */
export type Formulas = "escape" | "keep";

export const RECORD_DELIMITERS = ["\r\n", "\n"];

/**
 * Ends a run of the CSV parser before the end of the window. The reason is that enough rows were read, or that the parser's state is
 * unreliable after a row.
 */
class Stop extends Error {
  constructor(readonly problem?: string) {
    super();
  }
}

/**
 * Splits a window of a CSV file into rows. An unreadable row does not affect other rows. Reading resumes at the second line of the
 * unreadable row, so that an unclosed quote does not consume the file. The rows do not depend on the positions of the windows.
 */
export function cutCsv(window: Window, { delimiter, width }: { delimiter: string; width: number }, bounds: Bounds): Cut<string[]> {
  const { bytes, atEnd } = window;
  const pieces: Piece<string[]>[] = [];
  let { line } = window;
  let at = 0;

  const onRecord = (cells: string[], end: number): void => {
    if (at >= bounds.bytes || pieces.length >= bounds.rows) throw new Stop();
    const raw = bytes.subarray(at, end);
    const endsHere = raw.at(-1) === NEWLINE || (end === bytes.length && atEnd);
    if (!endsHere || raw.length > MAX_ROW_BYTES) throw new Stop(TOO_LARGE);
    const blank = cells.length === 1 && cells[0] === "" && raw.length <= 2 && raw.at(-1) === NEWLINE;
    const lines = countLines(raw);
    const columns = cells.length === width ? undefined : `has ${cells.length} columns instead of ${width}`;
    // An unreadable row may have started with a quote that a quote in a later row closed, so the later row must be read separately.
    if (columns && lines > 1) throw new Stop(columns);
    const problem = bytesProblem(raw) ?? columns;
    if (!blank) pieces.push({ line, start: at, end, ...(problem ? { problem } : { content: cells }) });
    at = end;
    line += lines;
  };

  while (at < bytes.length && at < bounds.bytes && pieces.length < bounds.rows) {
    const problem = runParser(bytes, at, delimiter, onRecord);
    if (problem === undefined) continue;
    const newline = bytes.indexOf(NEWLINE, at);
    const end = newline === -1 ? bytes.length : newline + 1;
    pieces.push({ line, start: at, end, problem: atEnd || bytes.length - at <= MAX_ROW_BYTES ? problem : oversized(problem) });
    at = end;
    if (newline === -1) return { pieces, at, line, skipping: !atEnd };
    line++;
  }
  return { pieces, at, line, skipping: false };
}

/**
 * Runs the parser until the end of the bytes, until enough rows are read, or until the first unreadable row. The function returns the
 * reason why a row is unreadable.
 */
function runParser(
  bytes: Uint8Array,
  from: number,
  delimiter: string,
  onRecord: (cells: string[], end: number) => void,
): string | undefined {
  try {
    parse(Buffer.from(bytes.buffer, bytes.byteOffset + from, bytes.length - from), {
      delimiter,
      record_delimiter: RECORD_DELIMITERS,
      relax_column_count: true,
      max_record_size: MAX_ROW_BYTES,
      on_record: (cells: string[], { bytes: end }) => {
        onRecord(cells, from + end);
        return undefined;
      },
    });
    return undefined;
  } catch (error) {
    if (error instanceof Stop) return error.problem;
    return csvProblem(error);
  }
}

/** Describes a parser error to the author of the file. */
export function csvProblem(error: unknown): string {
  if (!(error instanceof CsvError)) throw error;
  return PROBLEMS[error.code] ?? "cannot be read as CSV";
}

const PROBLEMS: Record<string, string> = {
  CSV_QUOTE_NOT_CLOSED: "has an unclosed quote",
  CSV_MAX_RECORD_SIZE: TOO_LARGE,
  CSV_INVALID_CLOSING_QUOTE: "has text after a closing quote: double a quote inside a quoted cell",
  INVALID_OPENING_QUOTE: "has a quote inside a cell that is not quoted: quote the cell and double the quote",
};

/** If the window ends before the closing quote, the row is too large in any case. */
function oversized(problem: string): string {
  return problem === PROBLEMS.CSV_QUOTE_NOT_CLOSED ? TOO_LARGE : problem;
}

/**
 * Returns rows as CSV, with quotes where they are needed. With `escape`, no cell contains text that a spreadsheet would run as a formula.
 */
export function toCsv(rows: readonly (readonly unknown[])[], formulas: Formulas): string {
  return stringify(
    rows.map((row) => row.map((cell) => (typeof cell === "string" && formulas === "escape" ? escapeFormulas(cell) : cell))),
    { quoted_match: /[\r\n]/ },
  );
}

/** Returns the text of a cell that `toCsv` wrote. */
export function fromCell(cell: string, formulas: Formulas): string {
  return formulas === "escape" ? unescapeFormulas(cell) : cell;
}
