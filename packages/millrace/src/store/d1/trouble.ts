import { askedDelayMs, codeOf, MillraceError, messageOf } from "../../contract/errors.ts";
import { beginning } from "../../contract/text.ts";

/**
 * What an error of the platform asks for. `transient`: the same call again within a second. `overloaded`: less traffic, later.
 * `unavailable`: later, at a time it names or we guess. `fatal`: nothing but another call can help. In all but the last the call may or may
 * not have taken effect.
 */
export type Trouble = "transient" | "overloaded" | "unavailable" | "fatal";

const SECOND = 1000;

/**
 * The platform's own words, read from top to bottom. Several errors hold the words of two kinds ("storage operation exceeded timeout which
 * caused object to be reset"): who asks for less traffic is believed first, because a repeat at once is the one answer that makes it worse.
 */
const WORDS: readonly { trouble: Trouble; delayMs: number; words: RegExp }[] = [
  // SQLite's codes of a statement that is wrong or refused, whenever it is sent and whatever else its text says.
  { trouble: "fatal", delayMs: 0, words: /SQLITE_(ERROR|CONSTRAINT|MISMATCH|RANGE|TOOBIG)/ },
  // A day's quota begins anew at midnight; a full database takes a person.
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

/** Which trouble of the platform an error speaks of. Errors of the caller's own making are `fatal`. */
export function troubleOf(error: unknown): Trouble {
  return seen(error).trouble;
}

/** True for errors of the platform that a repeat within a second may cure. An overload is none of them. */
export function isTransient(error: unknown): boolean {
  return troubleOf(error) === "transient";
}

/** Trouble of the platform in the caller's words, with a time to come back; any other error as it is. */
export function asUnavailable(error: unknown, who: string): unknown {
  const { trouble, delayMs } = seen(error);
  if (trouble === "fatal" || codeOf(error) === "unavailable") return error;
  const says = trouble === "overloaded" ? "asks for less traffic" : "is out of reach for the moment";
  return new MillraceError(
    "unavailable",
    `${who} ${says} (${beginning(messageOf(error), 200)}). Whether it took the write is unknown: send the same again in ${Math.ceil(delayMs / SECOND)} s.`,
    { cause: error, delayMs },
  );
}

/**
 * The platform's own reasons to refuse a step for good: a limit, or its time-out. They say how the step ended; a repeat changes nothing.
 * `exceeded`: our own Worker was ended by its limit of CPU or memory while it made an attempt.
 */
const ABOUT_STEP =
  /\bExecution timed out\b|\btoo (?:large|big)\b|not serialisable|not serializable|could not be cloned|DataCloneError|exceeded the .*storage limit|The limit of [\d,]+ steps|invalid format|exceeds max length|Worker exceeded/i;
/** The Workflows engine's words for its own end, whatever follows. */
const ABORTED = /\bAborting engine\b/;
const OF_ENGINE =
  /WorkflowInternalError|internal workflows error|internal error; reference|The delay function for step|\bdisconnected\b|RPC (?:session|stub|receiver)/i;

/** True for an engine that ends itself: at its grace period, or when an operator restarts or terminates the instance. */
export function isAborted(error: unknown): boolean {
  return ABORTED.test(messageOf(error));
}

/** True for the platform's word that a step ended: at a limit, or at its time-out. */
export function isAboutStep(error: unknown): boolean {
  return !isAborted(error) && ABOUT_STEP.test(namedText(error));
}

/** True for an error of the platform about itself: an object that was reset, a lost connection, an internal error. */
export function isInfrastructure(error: unknown): boolean {
  if (codeOf(error) !== undefined || isAboutStep(error)) return false;
  const text = namedText(error);
  return ABORTED.test(text) || OF_ENGINE.test(text) || troubleOf(error instanceof Error ? error : new Error(text)) !== "fatal";
}

/** The platform may put the name of an error into its message, or keep it apart. */
function namedText(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : messageOf(error);
  } catch {
    return messageOf(error);
  }
}

/** Milliseconds before the platform, or our own bounded queue, wants to hear of the same again. */
export function comeBackMs(error: unknown): number {
  return seen(error).delayMs;
}

function seen(error: unknown): { trouble: Trouble; delayMs: number } {
  if (!(error instanceof Error)) return FATAL;
  if (codeOf(error) === "unavailable") return { trouble: "unavailable", delayMs: askedDelayMs(error) ?? SECOND };
  // Our own words are about the caller, and may quote what it wrote.
  if (codeOf(error) !== undefined) return FATAL;
  const { overloaded, retryable } = error as { overloaded?: unknown; retryable?: unknown };
  const found = WORDS.find(({ words }) => words.test(error.message));
  if (overloaded === true && found?.trouble !== "unavailable") return { trouble: "overloaded", delayMs: 5 * SECOND };
  if (found) return found;
  return retryable === true ? { trouble: "transient", delayMs: SECOND } : FATAL;
}

const FATAL = { trouble: "fatal", delayMs: 0 } as const;
