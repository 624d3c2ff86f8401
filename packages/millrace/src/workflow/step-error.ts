import { NonRetryableError } from "cloudflare:workflows";
import { codeOf, isTerminal, MillraceError, messageOf, NON_RETRYABLE, saysTerminal, unclearOf } from "../contract/errors.ts";
import { framesOf } from "../contract/stack.ts";
import { readTold, tellError } from "../contract/told-error.ts";
import { errorOf } from "../pass/caught.ts";
import { isInfrastructure } from "../store/d1/trouble.ts";

/** True for an error that ends a step at once, without a retry (`asStepError`). The platform retries a step after any other error. */
export function endsStep(told: unknown): boolean {
  return told instanceof NonRetryableError;
}

export function asPlatformError(error: unknown): unknown {
  return isTerminal(error) && !(error instanceof NonRetryableError)
    ? new NonRetryableError(messageOf(error))
    : inWords(error, messageOf(error));
}

/**
 * Converts the error of a step to the error that the platform receives and stores. The message contains the code, because the platform
 * stores only the message and later replays need the code.
 */
export function asStepError(error: unknown): unknown {
  // The platform itself could throw an error with the same message. The code in the message shows, in this replay and in later replays,
  // that an attempt threw the error.
  const code = codeOf(error) ?? (isInfrastructure(error) ? "step_failed" : undefined);
  if (code === undefined) return withoutCode(error);
  const text = tellError({ message: messageOf(error), code, isFinal: saysTerminal(error), unclear: unclearOf(error) });
  if (endsAtOnce(error)) return new NonRetryableError(text);
  return new Error(text.startsWith(NON_RETRYABLE) ? `Error: ${text}` : text);
}

function withoutCode(error: unknown): unknown {
  const said = messageOf(error);
  const text = readTold(said) ? `${said}.` : said;
  if (endsAtOnce(error)) return new NonRetryableError(text);
  if (text.startsWith(NON_RETRYABLE)) return new Error(`Error: ${text}`);
  return inWords(error, text);
}

function endsAtOnce(error: unknown): boolean {
  return isTerminal(error) || error instanceof NonRetryableError || isByName(error);
}

function inWords(error: unknown, message: string): unknown {
  if (!(error instanceof Error)) return new Error(message);
  return error.message === message ? error : errorOf({ name: error.name, message });
}

/** The platform recognizes a non-retryable error by its name, not its class. */
function isByName(error: unknown): boolean {
  return error instanceof Error && error.name === NON_RETRYABLE;
}

/**
 * Converts an error or a text that begins with `NonRetryableError`. The platform recognizes that prefix, and an error that passed through
 * RPC may keep only that prefix.
 */
export function asNamed(error: unknown): unknown {
  if (!(error instanceof Error || typeof error === "string") || codeOf(error) !== undefined || isByName(error)) return error;
  const [begin, said] = /^NonRetryableError(?::\s*|$)(.*)$/s.exec(messageOf(error)) ?? [];
  if (begin === undefined || said === undefined) return error;
  const frames = error instanceof Error ? framesOf(error) : [];
  return Object.assign(new NonRetryableError(said), { stack: [begin, ...frames].join("\n") });
}

/** Restores a step's error with its code from the platform's error, so that all replays get the same error. */
export function fromStepError(error: unknown): unknown {
  const told = readTold(messageOf(error));
  if (!told) return error;
  const { code, message, isFinal, unclear } = told;
  return new MillraceError(code, message.replace(NAME, ""), {
    ...(isFinal && { terminal: true }),
    ...(unclear !== undefined && { unclear }),
  });
}

/** The platform may put the error's name before its message. */
const NAME = /^[A-Za-z]*Error: /;
