import { parse } from "csv-parse/sync";
import { type Issue, MillraceError, texts } from "millrace";
import { csvProblem, RECORD_DELIMITERS } from "./csv.ts";
import type { Dataset } from "./dataset.ts";

export const FORMATS = ["csv", "jsonl"] as const;
export type Format = (typeof FORMATS)[number];

/** The layout of a file's rows. The layout is read once from the first bytes of the file, when the batch is accepted. */
export interface Layout {
  /** Number of bytes before the first row. These bytes are a byte order mark, a header, or both. */
  offset: number;
  /** The line number of the first row, from 1. */
  line: number;
  /** The delimiter and the column names of a CSV file. The delimiter is `,` or `;`: the delimiter that gives more known columns. */
  delimiter?: "," | ";";
  columns?: string[];
}

/** Maximum length of a header in bytes. */
export const HEAD_BYTES = 65_536;
const MAX_COLUMNS = 1000;
const DELIMITERS = [",", ";"] as const;
const BOM = [0xef, 0xbb, 0xbf];

/** Reads the layout of a file from its first bytes. Errors: `invalid_payload` for an unusable header, or a file that is not UTF-8. */
export function readLayout(format: Format, head: Uint8Array, dataset: Dataset): Layout {
  if ((head[0] === 0xff && head[1] === 0xfe) || (head[0] === 0xfe && head[1] === 0xff)) {
    throw unusable("is UTF-16: save it as UTF-8");
  }
  const start = BOM.every((byte, index) => head[index] === byte) ? BOM.length : 0;
  if (format === "jsonl") return { offset: start, line: 1 };
  const found = readHeader(head.subarray(start), dataset);
  // If a header were truncated, the header would lose its last columns, and the remaining bytes of the header would be read as a row.
  if (start + found.bytes === HEAD_BYTES && head.at(-1) !== 0x0a) throw unusable(`has a header of more than ${HEAD_BYTES} bytes`);
  if (found.columns.length > MAX_COLUMNS) throw unusable(`has ${found.columns.length} columns: at most ${MAX_COLUMNS} are read`);
  const issues = headerIssues(found.columns, dataset);
  if (issues.length > 0) throw unusable(issues.slice(0, 10).join("; "), shownHeader(found, dataset));
  const lines = head.subarray(start, start + found.bytes).reduce((count, byte) => count + Number(byte === 0x0a), 0);
  return { offset: start + found.bytes, line: 1 + lines, delimiter: found.delimiter, columns: found.columns };
}

interface Header {
  delimiter: "," | ";";
  columns: string[];
  bytes: number;
}

/**
 * Reads the header by the delimiter that gives the most known columns. A quoted header can be read only with the delimiter that the header
 * uses.
 */
function readHeader(head: Uint8Array, dataset: Dataset): Header {
  const { required } = dataset;
  const read = DELIMITERS.map((delimiter) => tryHeader(head, delimiter));
  const needed = ({ columns }: Header) => required.filter((column) => columns.some((name) => name.trim() === column)).length;
  const [found] = read
    .filter((header) => typeof header !== "string")
    .sort((one, other) => needed(other) - needed(one) || other.columns.length - one.columns.length);
  if (!found) {
    const [line = ""] = Buffer.from(head).toString().split(/\r?\n/, 1);
    throw unusable(`has a header that cannot be read: ${read.join("; ")}`, shownLine("Its first line is", line, dataset));
  }
  // If a file ends its lines with CR alone, its rows would be read as column names and be lost without an error.
  if (found.columns.some((name) => /\r(?!\n)/.test(name))) throw unusable("ends its lines with CR alone: save it with LF or CRLF");
  return { ...found, columns: found.columns.map((name) => name.trim()) };
}

/** Reads the header with this delimiter. If the header is unusable, the function returns the reason. */
function tryHeader(head: Uint8Array, delimiter: "," | ";"): Header | string {
  let header: Header = { delimiter, columns: [], bytes: 0 };
  try {
    parse(Buffer.from(head), {
      delimiter,
      record_delimiter: RECORD_DELIMITERS,
      relax_column_count: true,
      to: 1,
      on_record: (columns: string[], { bytes }) => {
        header = { delimiter, columns, bytes };
        return undefined;
      },
    });
  } catch (error) {
    return `with “${delimiter}” it ${csvProblem(error)}`;
  }
  return header;
}

function headerIssues(columns: readonly string[], { required, open, columns: known, name }: Dataset): string[] {
  const twice = columns.filter((column, index) => columns.indexOf(column) !== index);
  return [
    ...required.filter((column) => !columns.includes(column)).map((column) => `lacks the column ${column}`),
    ...[...new Set(twice)].map((column) => `names the column “${texts.beginning(column, 64)}” twice`),
    ...columns.filter((column) => !nameable(column)).map((column) => `has a column that cannot be named “${texts.beginning(column, 64)}”`),
    ...(open
      ? []
      : columns
          .filter((column) => !known.includes(column))
          .map((column) => `has a column ${name} do not know: ${texts.beginning(column, 64)}`)),
  ];
}

/** Describes the columns that were read from the header, for error messages. */
function shownHeader({ delimiter, columns }: Header, dataset: Dataset): string {
  if (columns.every((name) => name === "")) return "Its header is empty.";
  const count = columns.length === 1 ? "1 column" : `${columns.length} columns`;
  return shownLine(`Its header was read with “${delimiter}” as ${count}`, columns.join(delimiter), dataset);
}

/** Describes the header's line and its probable separator, for error messages. */
function shownLine(what: string, line: string, { required }: Dataset): string {
  const [likely] = OTHER_SEPARATORS.filter(([separator]) => {
    const names = line.split(separator).map((name) => name.trim().replace(/^"(.*)"$/, "$1"));
    return required.every((column) => names.includes(column));
  });
  const read = `${what}: ${JSON.stringify(texts.beginning(line, 200))}.`;
  return likely ? `${read} It is separated by ${likely[1]}: save it with commas or semicolons.` : read;
}

/** The separators of columns that batches do not support, with the name of each separator. */
const OTHER_SEPARATORS = [
  ["\t", "tabs"],
  ["|", "“|”"],
  [":", "colons"],
  [" ", "spaces"],
] as const;

function nameable(column: string): boolean {
  return column !== "" && texts.characterCount(column) <= 64 && column !== "__proto__" && !/[\0\ufffd]/.test(column);
}

function unusable(what: string, more = ""): MillraceError {
  const issues: Issue[] = [{ path: "file", message: what }];
  return new MillraceError("invalid_payload", `The file ${what}.${more && ` ${more}`}`, { issues });
}
