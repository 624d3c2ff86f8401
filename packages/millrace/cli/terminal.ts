import { readFileSync } from "node:fs";
import { stripVTControlCharacters, styleText } from "node:util";

type Style = "bold" | "dim" | "green" | "red" | "yellow" | "cyan";

/** Adds a colour to a text, if standard output is a terminal and NO_COLOR is not set. */
export function paint(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout });
}

/**
 * Removes line breaks, escape sequences and direction marks from an untrusted text, so that a terminal prints the text without interpreting
 * it.
 */
export function oneLine(text: string): string {
  return stripVTControlCharacters(text).replace(UNSEEN, " ").trim();
}

/** Matches control characters, line separators and format characters, except the zero-width joiners that some writing systems need. */
const UNSEEN = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\u200c\u200d]]+/gv;

export function say(line = ""): void {
  process.stdout.write(`${line}\n`);
}

export function failed(sentence: string): void {
  process.stderr.write(`\n${styleText("red", "✗", { stream: process.stderr })} ${sentence}\n`);
}

export function column(text: string, width: number): string {
  return text.padEnd(width);
}

export function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export interface Column {
  readonly title: string;
  readonly isNumber?: boolean;
}

export function tableLines(columns: readonly Column[], rows: readonly (readonly string[])[]): string[] {
  const widths = columns.map(({ title }, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    columns
      .map(({ isNumber = false }, at) => {
        const [cell = "", width = 0] = [cells[at], widths[at]];
        return isNumber ? cell.padStart(width) : cell.padEnd(width);
      })
      .join("  ")
      .trimEnd();
  return [line(columns.map(({ title }) => title)), ...rows.map(line)];
}

/** Reads a settings file without its byte order mark. */
export function settingsIn(file: string): string {
  return readFileSync(file, "utf8").replace(/^\ufeff/, "");
}

/** The error code of SQLite for a full disk. */
const SQLITE_FULL = 13;

const NOT_YOURS = "It belongs to another user. Change its owner (chown -R), or work in your own copy of the checkout";
const WHAT_TO_DO: Readonly<Record<string, string>> = {
  ENOSPC: "The disk is full. Free some space",
  EDQUOT: "Your disk quota is exceeded. Free some space",
  EROFS: "The disk is read-only. Mount it for writing, or work in a copy of the checkout on another disk",
  EACCES: NOT_YOURS,
  EPERM: NOT_YOURS,
};

export function isOfDisk(error: unknown): boolean {
  return whatToDo(error) !== undefined;
}

/** The message of an error. For a disk error, the message is the action, then `then`, then the message of the system. */
export function errorWords(error: unknown, then: string): string {
  const message = error instanceof Error ? error.message : String(error);
  const says = whatToDo(error);
  return says === undefined ? message : `${says}, and ${then}. (${message})`;
}

function whatToDo(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  const isFull = "errcode" in error && error.errcode === SQLITE_FULL;
  return WHAT_TO_DO[isFull ? "ENOSPC" : String(error.code)];
}
