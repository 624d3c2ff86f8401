import { errors, MillraceError, texts } from "millrace";
import { type Bounds, bytesProblem, type Cut, NEWLINE, type Piece, type Window } from "./cut.ts";
import { MAX_ROW_BYTES } from "./limits.ts";

/** Splits a window of a JSON Lines file into lines. Blank lines are not rows. */
export function cutJsonl({ bytes, line: first, atEnd }: Window, bounds: Bounds): Cut<string> {
  const pieces: Piece<string>[] = [];
  let line = first;
  let at = 0;
  while (at < bytes.length && at < bounds.bytes && pieces.length < bounds.rows) {
    const newline = bytes.indexOf(NEWLINE, at);
    const end = newline === -1 ? bytes.length : newline + 1;
    const raw = bytes.subarray(at, end);
    const problem = end - at > MAX_ROW_BYTES || (newline === -1 && !atEnd) ? `is larger than ${MAX_ROW_BYTES} bytes` : bytesProblem(raw);
    if (problem) pieces.push({ line, start: at, end, problem });
    else {
      const content = DECODER.decode(raw).trim();
      if (content) pieces.push({ line, start: at, end, content });
    }
    at = end;
    if (newline === -1) return { pieces, at, line, skipping: !atEnd };
    line++;
  }
  return { pieces, at, line, skipping: false };
}

const DECODER = new TextDecoder();

/**
 * Parses JSON from a file, with the limits of a command: depth, no NUL, no lone surrogates, no duplicate keys. Error messages address the
 * author of the row.
 */
export function readJson(text: string, where = ""): unknown {
  try {
    return texts.parseBounded(text);
  } catch (error) {
    if (errors.codeOf(error) === "invalid_json") throw new Error(`${where}is not JSON`);
    if (error instanceof MillraceError && error.detail.issues?.[0]) {
      const [{ path, message }] = error.detail.issues as [{ path: string; message: string }];
      throw new Error(`${where}${path ? `${path}: ` : ""}${message}`);
    }
    throw error;
  }
}
