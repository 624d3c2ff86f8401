import { NonRetryableError } from "cloudflare:workflows";
import { codeOf, isTerminal, MillraceError, messageOf, NON_RETRYABLE, saysTerminal, unclearOf } from "../contract/errors.ts";
import { framesOf } from "../contract/stack.ts";
import { readTold, tellError } from "../contract/told-error.ts";
import { errorOf } from "../pass/caught.ts";
import { isInfrastructure } from "../store/d1/trouble.ts";

/** True for errors that end a step at once, as the platform is told them (`asStepError`). All others are retried. */
export function endsStep(told: unknown): boolean {
  return told instanceof NonRetryableError;
}

/** The error as the platform should see it: one that must not be retried ends the step at once. */
export function asPlatformError(error: unknown): unknown {
  return isTerminal(error) && !(error instanceof NonRetryableError)
    ? new NonRetryableError(messageOf(error))
    : inWords(error, messageOf(error));
}

/** The same for a step's error, which later passes hear again: the platform keeps its message alone, so its code goes with that. */
export function asStepError(error: unknown): unknown {
  // The platform could have thrown the same words: with a code they are an attempt's, in this replay and in every later one.
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

/** True for an error that ends its step: no repeat can help. */
function endsAtOnce(error: unknown): boolean {
  return isTerminal(error) || error instanceof NonRetryableError || isByName(error);
}

/** The error itself where it has these words; otherwise one that has them, of the same name. */
function inWords(error: unknown, message: string): unknown {
  if (!(error instanceof Error)) return new Error(message);
  return error.message === message ? error : errorOf({ name: error.name, message });
}

/** True for what the platform takes for its own error that ends a step: it goes by the name, whose class it is says nothing. */
function isByName(error: unknown): boolean {
  return error instanceof Error && error.name === NON_RETRYABLE;
}

/** An error, or a bare text, that begins with that name, by which the platform goes as well, as that error: so one may come over RPC. */
export function asNamed(error: unknown): unknown {
  if (!(error instanceof Error || typeof error === "string") || codeOf(error) !== undefined || isByName(error)) return error;
  const [begin, said] = /^NonRetryableError(?::\s*|$)(.*)$/s.exec(messageOf(error)) ?? [];
  if (begin === undefined || said === undefined) return error;
  const frames = error instanceof Error ? framesOf(error) : [];
  return Object.assign(new NonRetryableError(said), { stack: [begin, ...frames].join("\n") });
}

/** A step's error as the platform gives it back, with its code again: the same in the pass that made it and in every later one. */
export function fromStepError(error: unknown): unknown {
  const told = readTold(messageOf(error));
  if (!told) return error;
  const { code, message, isFinal, unclear } = told;
  return new MillraceError(code, message.replace(NAME, ""), {
    ...(isFinal && { terminal: true }),
    ...(unclear !== undefined && { unclear }),
  });
}

/** Before its message the platform puts the error's name, or not. */
const NAME = /^[A-Za-z]*Error: /;
