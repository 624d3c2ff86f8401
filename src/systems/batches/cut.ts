import { isUtf8 } from "node:buffer";
import { MAX_ROW_BYTES } from "./limits.ts";

/** A stretch of a file that is in memory. */
export interface Window {
  readonly bytes: Uint8Array;
  /** The file's line at its first byte, from 1. */
  readonly line: number;
  /** True if nothing of the file comes behind it. */
  readonly atEnd: boolean;
}

/** How much of a window to take: rows that begin before this byte, and at most so many. */
export interface Bounds {
  readonly bytes: number;
  readonly rows: number;
}

/** One row as it stands in the file: what it says, or why it cannot be read. */
export interface Piece<Content> {
  readonly line: number;
  /** Where in the window. */
  readonly start: number;
  readonly end: number;
  readonly content?: Content;
  readonly problem?: string;
}

/** The rows of a window, and where to go on. */
export interface Cut<Content> {
  readonly pieces: Piece<Content>[];
  /** The window's first byte that is not used up. */
  readonly at: number;
  readonly line: number;
  /** True inside a line that is too long: the next row begins behind its end. */
  readonly skipping: boolean;
}

export const NEWLINE = 0x0a;
export const TOO_LARGE = `is larger than ${MAX_ROW_BYTES} bytes, or a quote in it is never closed`;

/** Why a row's bytes are no text, if they are none. */
export function bytesProblem(raw: Uint8Array): string | undefined {
  if (raw.includes(0)) return "holds a NUL byte: the file may be binary, or not UTF-8";
  if (!isUtf8(raw)) return "is not UTF-8: save the file as UTF-8";
  return undefined;
}

/** Goes to the end of a line that is too long to be a row. */
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
