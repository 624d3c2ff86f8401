import { askedDelayMs, codeOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { beginning } from "../../contract/text.ts";

/**
 * The reaction to a platform error. `transient`: repeat within a second. `overloaded`: reduce the load. `unavailable`: repeat later, after
 * the given or a guessed delay. `fatal`: a repeat is useless. Except for `fatal`, the outcome of the call is unknown.
 */
export type Trouble = "transient" | "overloaded" | "unavailable" | "fatal";

const SECOND = 1000;

const ELSEWHERE = /The tenant lives in another cell/;

/** True for the error of a trigger, which refuses the instances of a tenant that lives in another cell. */
export function isElsewhere(error: unknown): boolean {
  return ELSEWHERE.test(messageOf(error));
}

/**
 * Messages of the platform's errors, matched in this order. Some errors match two kinds, such as "storage operation exceeded timeout which
 * caused object to be reset". Overload has precedence, because an immediate repeat would increase the load.
 */
const WORDS: readonly { trouble: Trouble; delayMs: number; words: RegExp }[] = [
  // A later attempt reads the tenant's cell.
  { trouble: "unavailable", delayMs: 60 * SECOND, words: ELSEWHERE },
  // SQLite's codes for an invalid or refused statement. These codes have precedence over the rest of an error message.
  { trouble: "fatal", delayMs: 0, words: /SQLITE_(ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG)/ },
  // A daily quota is reset at midnight. A full database needs an operator.
  {
    trouble: "unavailable",
    delayMs: 3600 * SECOND,
    words: /\bdaily\b.*\blimit|limit.*\bdaily\b|exceeded maximum (account storage|DB size)/i,
  },
  {
    trouble: "overloaded",
    delayMs: 5 * SECOND,
    words:
      /overloaded|queued for too long|too much load|too many (requests|concurrent)|operation exceeded timeout|exceeded its (memory|CPU)|exceeded (memory|CPU) limit|reduce your .*rate/i,
  },
  { trouble: "unavailable", delayMs: 30 * SECOND, words: /currently processing a long-running (export|import)/i },
  {
    trouble: "transient",
    delayMs: SECOND,
    words:
      /Network connection lost|D1 DB reset|Internal error in D1 DB storage|Cannot resolve D1 DB due to transient issue|Can't read from request stream|SQLITE_BUSY|database is locked|Durable Object (reset|storage)|object to be reset|code has been updated|object has moved|Connection closed|no longer active|internal (server )?error|bad gateway|service unavailable|gateway time-?out/i,
  },
];

/** The kind of a platform error. For an error that the caller caused, the kind is `fatal`. */
export function troubleOf(error: unknown): Trouble {
  return seen(error).trouble;
}

/** True for platform errors that a repeat within a second may fix. False for overload. */
export function isTransient(error: unknown): boolean {
  return troubleOf(error) === "transient";
}

/** Converts a platform failure to `unavailable`, with a delay. Any other error is returned unchanged. */
export function asUnavailable(error: unknown, who: string): unknown {
  const { trouble, delayMs } = seen(error);
  if (trouble === "fatal" || codeOf(error) === "unavailable") return error;
  const says = trouble === "overloaded" ? "asks for less traffic" : "is out of reach for the moment";
  return new MillraceError(
    "unavailable",
    `${who} ${says} (${beginning(messageOf(error), 200)}). The outcome of the write is unknown: repeat the request in ${Math.ceil(delayMs / SECOND)} s.`,
    { cause: error, delayMs },
  );
}

/**
 * The platform's final errors for a step: the step exceeded a limit or its timeout. Such an error is the step's outcome, which a repeat
 * does not change. `exceeded`: the Worker reached its CPU or memory limit during an attempt.
 */
const ABOUT_STEP =
  /\bExecution timed out\b|\btoo (?:large|big)\b|not serialisable|not serializable|could not be cloned|DataCloneError|exceeded the .*storage limit|The limit of [\d,]+ steps|invalid format|exceeds max length|Worker exceeded/i;
/** The Workflows engine's message when it shuts down, with any suffix. */
const ABORTED = /\bAborting engine\b/;
const OF_ENGINE =
  /WorkflowInternalError|internal workflows error|internal error; reference|The delay function for step|\bdisconnected\b|RPC (?:session|stub|receiver)/i;

/** True when the Workflows engine shuts down: after its grace period, or when an operator restarts or terminates the instance. */
export function isAborted(error: unknown): boolean {
  return ABORTED.test(messageOf(error));
}

/** True for the platform's final error of a step that exceeded a limit or its timeout. */
export function isAboutStep(error: unknown): boolean {
  return !isAborted(error) && ABOUT_STEP.test(namedText(error));
}

/** True for an infrastructure error of the platform: a reset object, a lost connection, an internal error. */
export function isInfrastructure(error: unknown): boolean {
  if (codeOf(error) !== undefined || isAboutStep(error)) return false;
  const text = namedText(error);
  return ABORTED.test(text) || OF_ENGINE.test(text) || troubleOf(error instanceof Error ? error : new Error(text)) !== "fatal";
}

/** The name and the message of an error as one text, because the platform may put the name into the message. */
function namedText(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : messageOf(error);
  } catch {
    return messageOf(error);
  }
}

/** The delay before the next attempt in milliseconds, which the platform or the engine's bounded queue requests. */
export function comeBackMs(error: unknown): number {
  return seen(error).delayMs;
}

function seen(error: unknown): { trouble: Trouble; delayMs: number } {
  if (!(error instanceof Error)) return FATAL;
  if (codeOf(error) === "unavailable") return { trouble: "unavailable", delayMs: askedDelayMs(error) ?? SECOND };
  // An error of the engine is not a platform error, although its message may quote the platform's message from the caller's input.
  if (codeOf(error) !== undefined) return FATAL;
  const { overloaded, retryable } = error as { overloaded?: unknown; retryable?: unknown };
  const found = WORDS.find(({ words }) => words.test(error.message));
  if (overloaded === true && found?.trouble !== "unavailable") return { trouble: "overloaded", delayMs: 5 * SECOND };
  if (found) return found;
  return retryable === true ? { trouble: "transient", delayMs: SECOND } : FATAL;
}

const FATAL = { trouble: "fatal", delayMs: 0 } as const;
