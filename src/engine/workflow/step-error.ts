import { NonRetryableError } from "cloudflare:workflows";
import { codeOf, isTerminal, MillraceError, messageOf, saysTerminal } from "../contract/errors.ts";

/** True for errors that end a step at once. Errors nobody classified are retried. */
export function endsStep(error: unknown): boolean {
  return error instanceof NonRetryableError || isTerminal(error);
}

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
