import type { ErrorCode } from "./errors.ts";

/** A step's error as the platform is told it, which keeps its message alone. */
interface Told {
  /** In its own words. */
  readonly message: string;
  readonly code: ErrorCode;
  /** True for one that says itself that another attempt cannot cure it. */
  readonly isFinal: boolean;
  /** What it says itself of whether its effect may have happened; undefined where its code has to say it. */
  readonly unclear: boolean | undefined;
}

/** The message with its code behind it. */
export function tellError({ message, code, isFinal, unclear }: Told): string {
  const happened = unclear === undefined ? "" : unclear ? UNCLEAR : NOTHING_DONE;
  return `${message} (millrace: ${code}${isFinal ? ", final" : ""}${happened})`;
}

const UNCLEAR = ", unclear";
const NOTHING_DONE = ", nothing done";

const TOLD = /^(.*) \(millrace: ([a-z][a-z0-9_]{0,63})(, final)?(, unclear|, nothing done)?\)$/s;

/** Reads such a message; undefined for one without a code. */
export function readTold(text: string): Told | undefined {
  const [, message, code, final, happened] = TOLD.exec(text) ?? [];
  return message === undefined || code === undefined
    ? undefined
    : { message, code, isFinal: final !== undefined, unclear: happened === undefined ? undefined : happened === UNCLEAR };
}

/** A step of the platform, by its name there. */
export interface PlatformStepName {
  readonly type: "do" | "sleep" | "waitForEvent";
  readonly name: string;
}

/**
 * The platform's error, which ended a replay and says nothing about the run, with the step at which it came. A platform that marks the
 * instance as errored keeps this text, and the keeper reads from it where to restart.
 */
export function tellBrokenOff(said: string, { type, name }: PlatformStepName): string {
  return `${said} (millrace broke off at ${type} ${name})`;
}

const BROKEN_OFF = / \(millrace broke off at (do|sleep|waitForEvent) (.+)\)$/s;

/** Reads such a text; undefined for any other. */
export function readBrokenOff(text: string): PlatformStepName | undefined {
  const [, type, name] = BROKEN_OFF.exec(text) ?? [];
  return name === undefined ? undefined : { type: type as PlatformStepName["type"], name };
}
