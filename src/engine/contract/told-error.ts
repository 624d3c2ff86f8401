import type { ErrorCode } from "./errors.ts";

/** A step's error as the platform is told it, which keeps its message alone. */
interface Told {
  /** In its own words. */
  readonly message: string;
  readonly code: ErrorCode;
  /** True for one that says itself that another attempt cannot cure it. */
  readonly isFinal: boolean;
  /** True for a refusal behind an attempt of which nobody knows what it did. */
  readonly isUnclear: boolean;
}

/** The message with its code behind it. */
export function tellError({ message, code, isFinal, isUnclear }: Told): string {
  return `${message} (millrace: ${code}${isFinal ? ", final" : ""}${isUnclear ? ", unclear" : ""})`;
}

const TOLD = /^(.*) \(millrace: ([a-z][a-z0-9_]{0,63})(, final)?(, unclear)?\)$/s;

/** Reads such a message; undefined for one without a code. */
export function readTold(text: string): Told | undefined {
  const [, message, code, final, unclear] = TOLD.exec(text) ?? [];
  return message === undefined || code === undefined
    ? undefined
    : { message, code, isFinal: final !== undefined, isUnclear: unclear !== undefined };
}
