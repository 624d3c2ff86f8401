import { isUtf8 } from "node:buffer";
import { MAX_ROW_BYTES } from "./limits.ts";

/** A range of a file in memory. */
export interface Window {
  readonly bytes: Uint8Array;
  /** The line number in the file at the window's first byte, from 1. */
  readonly line: number;
  /** True if the file ends with this window. */
  readonly atEnd: boolean;
}

/** The part of a window to read: rows that begin before this byte, and the maximum number of rows. */
export interface Bounds {
  readonly bytes: number;
  readonly rows: number;
}

/** One row of the file: the row's content, or the reason why it cannot be read. */
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
  /** The window's first unread byte. */
  readonly at: number;
  readonly line: number;
  /** True inside a line that is too long: the next row begins after it. */
  readonly skipping: boolean;
}

export const NEWLINE = 0x0a;
export const TOO_LARGE = `is larger than ${MAX_ROW_BYTES} bytes, or a quote in it is never closed`;

/** Returns the reason why a row's bytes are not valid text; undefined if they are valid. */
export function bytesProblem(raw: Uint8Array): string | undefined {
  if (raw.includes(0)) return "holds a NUL byte: the file may be binary, or not UTF-8";
  if (!isUtf8(raw)) return "is not UTF-8: save the file as UTF-8";
  return undefined;
}

/** Skips the rest of a line that is too long. */
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
