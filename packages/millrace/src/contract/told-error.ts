import type { ErrorCode } from "./errors.ts";

/** The parts of a step's error that the error's message contains. The platform keeps only an error's message. */
interface Told {
  readonly message: string;
  readonly code: ErrorCode;
  /** True for an error whose field `terminal` ends the error's step at once. */
  readonly isFinal: boolean;
  /** The error's `unclear` field; undefined if only the error's code decides. */
  readonly unclear: boolean | undefined;
}

/** An error's message with the error's code appended, because the platform keeps only the message. */
export function reportError({ message, code, isFinal, unclear }: Told): string {
  const happened = unclear === undefined ? "" : unclear ? UNCLEAR : NOTHING_DONE;
  return `${message} (millrace: ${code}${isFinal ? ", final" : ""}${happened})`;
}

const UNCLEAR = ", unclear";
const NOTHING_DONE = ", nothing done";

const TOLD = /^(.*) \(millrace: ([a-z][a-z0-9_]{0,63})(, final)?(, unclear|, nothing done)?\)$/s;

/** Parses an error message with an appended code; undefined for a message without a code. */
export function readTold(text: string): Told | undefined {
  const [, message, code, final, happened] = TOLD.exec(text) ?? [];
  return message === undefined || code === undefined
    ? undefined
    : { message, code, isFinal: final !== undefined, unclear: happened === undefined ? undefined : happened === UNCLEAR };
}

/** A step, by its type and name on the platform. */
export interface PlatformStepName {
  readonly type: "do" | "sleep" | "waitForEvent";
  readonly name: string;
}

/**
 * The message of a platform error that ended a replay but is no failure of the run, with the step at which it occurred. The platform stores
 * this text when it marks the instance as errored, and the keeper parses the text to find the step from which to restart the run.
 */
export function reportBrokenOff(said: string, { type, name }: PlatformStepName): string {
  return `${said} (millrace broke off at ${type} ${name})`;
}

const BROKEN_OFF = / \(millrace broke off at (do|sleep|waitForEvent) (.+)\)$/s;

/** Parses the message that `reportBrokenOff` creates; undefined for any other message. */
export function readBrokenOff(text: string): PlatformStepName | undefined {
  const [, type, name] = BROKEN_OFF.exec(text) ?? [];
  return name === undefined ? undefined : { type: type as PlatformStepName["type"], name };
}

/**
 * The frames of an error's stack, the innermost first, without the message, which may contain lines like frames and data that must not be
 * shown. Empty if the message was changed later and so is not in the stack, because the end of the original message in the stack is then
 * unknown.
 */
export function framesOf({ message, stack = "" }: Error): string[] {
  const at = stack.indexOf(message);
  if (at < 0) return [];
  return stack
    .slice(at + message.length)
    .split("\n")
    .filter((line) => /^\s+at /.test(line));
}

/** Replaces the message of an error, also in its stack, unless the message is read-only. */
export function sayInstead(error: Error, message: string): void {
  const frames = framesOf(error);
  Object.assign(error, { message, stack: [`${error.name}: ${message}`, ...frames].join("\n") });
}
