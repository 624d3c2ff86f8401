import { isUtf8 } from "node:buffer";
import { MAX_ROW_BYTES } from "./limits.ts";

/** A range of a file in memory. */
export interface Window {
  readonly bytes: Uint8Array;
  /** The number of the line in the file that contains the window's first byte. Lines are numbered from 1. */
  readonly line: number;
  /** True if the file ends with this window. */
  readonly atEnd: boolean;
}

/** Limits the rows that are read from a window. Only rows that begin before the byte `bytes` are read, and at most `rows` rows. */
export interface Bounds {
  readonly bytes: number;
  readonly rows: number;
}

/** One row of the file, with the row's content or the reason why the row cannot be read. */
export interface Piece<Content> {
  readonly line: number;
  /** The row's position in the window. */
  readonly start: number;
  readonly end: number;
  readonly content?: Content;
  readonly problem?: string;
}

/** The rows of a window, and the position at which reading continues. */
export interface Cut<Content> {
  readonly pieces: Piece<Content>[];
  /** The offset of the first byte in the window that was not read. */
  readonly at: number;
  readonly line: number;
  /** True if `at` is inside a line that is too long. The next row begins after that line. */
  readonly skipping: boolean;
}

export const NEWLINE = 0x0a;
export const TOO_LARGE = `is larger than ${MAX_ROW_BYTES} bytes, or a quote in it is never closed`;

/** Returns the reason why a row's bytes are not valid text; undefined if the bytes are valid. */
export function bytesProblem(raw: Uint8Array): string | undefined {
  if (raw.includes(0)) return "holds a NUL byte: the file may be binary, or not UTF-8";
  if (!isUtf8(raw)) return "is not UTF-8: save the file as UTF-8";
  return undefined;
}

/** Skips the remaining bytes of a line that is too long. */
export function skipLine<Content>({ bytes, line, atEnd }: Window): Cut<Content> {
  const newline = bytes.indexOf(NEWLINE);
  if (newline === -1) return { pieces: [], at: bytes.length, line, skipping: !atEnd };
  return { pieces: [], at: newline + 1, line: line + 1, skipping: false };
}

export function countLines(raw: Uint8Array): number {
  let lines = 0;
  for (let at = raw.indexOf(NEWLINE); at !== -1; at = raw.indexOf(NEWLINE, at + 1)) lines++;
  return lines;
}
