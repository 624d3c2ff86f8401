import { NonRetryableError } from "cloudflare:workflows";
import { backoffMs, durationMs } from "../contract/duration.ts";
import { askedDelayMs, codeOf, type ErrorCode, isTerminal, MillraceError, messageOf, saysTerminal } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";
import type { Retries } from "../guard/step.ts";

/** Why a step, and with it an instance, stopped: what the operator reads. */
export interface Failure {
  /** The step as the platform names it; empty when the workflow's own code threw between steps. */
  step: string;
  /** Where the code threw between steps: the step whose failure it had heard last, if that was a failure. */
  behind?: string | undefined;
  /** The step that the code named there, and that was never begun. */
  at?: string | undefined;
  /** Where an error of the workflow's own code was thrown between steps: function, file, line and column, as its stack says first. */
  where?: string | undefined;
  code: ErrorCode;
  message: string;
  attempts: number;
  upstreamStatus?: number | undefined;
}

/** True for errors that end a step at once. Errors nobody classified are retried. */
export function endsStep(error: unknown): boolean {
  return error instanceof NonRetryableError || isTerminal(error);
}

/**
 * What the database says of a table or column that is not there, in words that say what to do: no further attempt can cure it. Any other
 * error as it is.
 */
export function asMissing(error: unknown): unknown {
  const [, what, name, table, column] = (codeOf(error) === undefined && MISSING.exec(messageOf(error))) || [];
  const missing = what ? `${what} "${name}"` : table && `column "${column}" in the table "${table}"`;
  if (!missing) return error;
  const said = `The database has no ${missing}. Is it spelt so, and is the migration applied that makes it? Then retry the instance.`;
  return new MillraceError("config_invalid", said, { cause: error });
}

const MISSING =
  /^(?:D1_ERROR: )?(?:no such (table|column): (\S+?)|table (\S+) has no column named (\S+?))(?: at offset \d+)?(?:: SQLITE_ERROR)?$/;

/** Describes an attempt's error for people and for the database. Messages are bounded; stacks and payloads stay out. */
export function describeFailure(step: string, attempts: number, error: unknown): Failure {
  const code = codeOf(error) ?? "step_failed";
  const where = step === "" && codeOf(error) === undefined ? thrownAt(error) : undefined;
  const { upstreamStatus, step: at } = error instanceof MillraceError ? error.detail : {};
  return {
    step,
    ...(step === "" && at !== undefined && { at }),
    ...(where !== undefined && { where }),
    code,
    message: beginning(messageOf(error), 1000),
    attempts,
    ...(upstreamStatus !== undefined && { upstreamStatus }),
  };
}

/** The first frame of an error's stack that is the author's. What stands before its frames, the message, is none of it. */
function thrownAt(error: unknown): string | undefined {
  try {
    if (!(error instanceof Error) || error.stack === undefined) return undefined;
    const frames = error.stack.slice(error.stack.indexOf(error.message) + error.message.length).split("\n");
    const [, frame] = frames.map((line) => FRAME.exec(line)).find((found) => found && !NOT_THE_AUTHORS.test(found[0])) ?? [];
    return frame && beginning(frame.replace("file://", ""), 300);
  } catch {
    return undefined;
  }
}

const FRAME = /^\s+at (.+:\d+:\d+\)?)$/;
const NOT_THE_AUTHORS = /\/node_modules\/|\/engine\/guard\/|\(?(?:node|cloudflare|native):/;

/** The error as the platform should see it: one that must not be retried ends the step at once. */
export function asPlatformError(error: unknown): unknown {
  return isTerminal(error) && !(error instanceof NonRetryableError) ? new NonRetryableError(messageOf(error)) : error;
}

/** The same for a step's error, which later passes hear again: the platform keeps its message alone, so its code goes with that. */
export function asStepError(error: unknown): unknown {
  const code = codeOf(error);
  if (code === undefined) return STEP_ERROR.test(messageOf(error)) ? new Error(`${messageOf(error)}.`) : asPlatformError(error);
  const text = `${messageOf(error)} (millrace: ${code}${saysTerminal(error) ? ", final" : ""})`;
  return isTerminal(error) ? new NonRetryableError(text) : new Error(text);
}

/** A step's error as the platform gives it back, with its code again: the same in the pass that made it and in every later one. */
export function fromStepError(error: unknown): unknown {
  const [, message = "", code, final] = STEP_ERROR.exec(messageOf(error)) ?? [];
  return code === undefined ? error : new MillraceError(code, message, final === undefined ? {} : { terminal: true });
}

/** Before its message the platform puts the error's name, or not. */
const STEP_ERROR = /^(?:[A-Za-z]*Error: )?(.*) \(millrace: ([a-z_]+)(, final)?\)$/s;

/**
 * Milliseconds before the next attempt: what the upstream asked for, or else the policy's own back-off, capped at an hour. What is out
 * of reach for the moment (`unavailable`) says when to come back at the earliest: it is not hurried past the policy.
 */
export function nextDelayMs(retries: Retries, attempt: number, error: unknown): number {
  const asked = askedDelayMs(error);
  if (asked === undefined || !(asked >= 0)) return backOffMs(retries, attempt);
  return Math.min(codeOf(error) === "unavailable" ? Math.max(asked, backOffMs(retries, attempt)) : asked, MAX_DELAY_MS);
}

/** The platform ends a step at once whose delay it cannot take. */
const MAX_DELAY_MS = 12 * 3_600_000;

function backOffMs(retries: Retries, attempt: number): number {
  const delayMs = durationMs(retries.delay);
  switch (retries.backoff ?? "exponential") {
    case "constant":
      return delayMs;
    case "linear":
      return Math.min(delayMs * attempt, 3_600_000);
    case "exponential":
      return backoffMs(attempt, delayMs, 3_600_000);
  }
}
