import { carried, KEPT_ERROR_CHARACTERS, messageOf } from "./error-words.ts";
import { beginning } from "./text.ts";

export { messageOf };

/** The failures that the engine names. The literal is the identity: it survives RPC and the platform's own error wrapping. */
const ENGINE_CODES = [
  "invalid_json",
  "invalid_envelope",
  "invalid_payload",
  "payload_too_large",
  "payload_missing",
  "unknown_message_type",
  "idempotency_key_reused",
  "route_timeout",
  "out_of_order",
  "too_many_hops",
  "instance_not_found",
  "effect_not_found",
  "dead_letter_not_found",
  "approval_not_found",
  "schedule_not_found",
  "lock_not_found",
  "lock_held",
  "lock_lost",
  "lane_not_found",
  "alert_not_found",
  "correlation_not_found",
  "key_not_found",
  "bulk_action_not_found",
  "bulk_actions_running",
  "more_matched",
  "invalid_transition",
  "lease_lost",
  "in_doubt",
  "database_set_back",
  "step_failed",
  "step_timeout",
  "wait_timeout",
  "retry_after",
  "upstream_refused",
  "in_progress",
  "not_retryable",
  "output_too_large",
  "output_not_serializable",
  "nondeterministic_steps",
  "unauthorized",
  "forbidden",
  "rate_limited",
  "unavailable",
  "config_invalid",
  "invariant",
] as const;
export type EngineCode = (typeof ENGINE_CODES)[number];

/** The engine's codes, and an app's own: up to 64 lower case letters, digits and underscores. */
export type ErrorCode = EngineCode | (string & {});

/** True for a word that may be a code. What is none may be anything, such as what nobody may see. */
export function isCode(code: unknown): code is ErrorCode {
  return typeof code === "string" && /^[a-z][a-z0-9_]{0,63}$/.test(code);
}

export function isEngineCode(code: ErrorCode): code is EngineCode {
  return (ENGINE_CODES as readonly ErrorCode[]).includes(code);
}

/** Codes of failures that another attempt cannot cure. */
const TERMINAL: ReadonlySet<ErrorCode> = new Set<EngineCode>([
  "not_retryable",
  "output_too_large",
  "output_not_serializable",
  "payload_too_large",
  "nondeterministic_steps",
  "invalid_payload",
  "invalid_envelope",
  "config_invalid",
]);

/** One thing wrong with one field of the input. `path` is dotted, such as `payload.keyword`. */
export interface Issue {
  path: string;
  message: string;
}

export interface ErrorDetail {
  /** What is wrong with which field. */
  issues?: Issue[];
  /** Milliseconds to wait before the next try. */
  delayMs?: number;
  /** True for an app's own code that another attempt cannot cure: it ends its step at once. */
  terminal?: boolean;
  /** The HTTP status an upstream answered with. */
  upstreamStatus?: number;
  /** Another name the caller probably meant. */
  didYouMean?: string;
  /** The step that the code named where it threw. */
  step?: string;
  from?: string;
  to?: string;
  /** True for the refusal of an operator's action that has its row in the audit already. */
  audited?: boolean;
  /**
   * True for a refusal behind an attempt of which nobody knows what it did: it holds for its own attempt alone. False for an error whose
   * attempt has certainly done nothing, whatever its code.
   */
  unclear?: boolean;
  cause?: unknown;
}

/** The engine's one error class. `message` says what happened and what to do next, in words fit for the person who reads it. */
export class MillraceError extends Error {
  override readonly name = "MillraceError";
  readonly code: ErrorCode;
  readonly detail: ErrorDetail;

  /** Of a cause that cannot cross an RPC boundary its words are kept: it would cost the error its name, code and detail there. */
  constructor(code: ErrorCode, message: string, { cause, ...detail }: ErrorDetail = {}) {
    super(message, { cause: carried(cause) });
    this.code = code;
    this.detail = detail;
  }
}

/**
 * The upstream asked us to come back later (429, 503 with `Retry-After`). The step's next attempt waits `delayMs`, at most 12 hours, and
 * never less than the step's `retries` say: 0 is their pause. The effect did not happen.
 */
export function retryAfter(delayMs: number, message: string, upstreamStatus?: number): MillraceError {
  return new MillraceError("retry_after", message, { delayMs, upstreamStatus });
}

/**
 * The upstream is still at work on an earlier attempt under our key (409, 425): what comes of it is unknown. The next attempt waits
 * `delayMs`; a `lookup` asks first then, and a `once` effect waits for a person.
 */
export function inProgress(delayMs: number, message: string, upstreamStatus?: number): MillraceError {
  return new MillraceError("in_progress", message, { delayMs, upstreamStatus });
}

/**
 * The upstream answered that it did nothing (most 4xx). Retried by the step's policy; a `once` effect may run again, because nothing
 * happened.
 */
export function upstreamRefused(message: string, upstreamStatus?: number): MillraceError {
  return new MillraceError("upstream_refused", message, { upstreamStatus });
}

/** Trying again cannot help (bad credentials, a rejected request). Ends the step at once; the effect did not happen. */
export function notRetryable(message: string, upstreamStatus?: number): MillraceError {
  return new MillraceError("not_retryable", message, { upstreamStatus });
}

/** True for errors that say for certain the effect did not happen, so that even a `once` effect may be tried again. */
export function isDefiniteRefusal(error: unknown): boolean {
  const unclear = unclearOf(error);
  return unclear === false || (unclear === undefined && REFUSALS.has(codeOf(error) ?? ""));
}

const REFUSALS: ReadonlySet<ErrorCode> = new Set<EngineCode>(["retry_after", "upstream_refused", "not_retryable", "lock_held"]);

/** A refusal that holds for its own attempt alone: one before it may have done the effect. Any other error as it is. */
export function asUnclear(error: unknown): unknown {
  const code = codeOf(error);
  if (code === undefined || !isDefiniteRefusal(error)) return error;
  const { stack, cause } = error as Error;
  return Object.assign(new MillraceError(code, messageOf(error), { ...detailOf(error), unclear: true, cause }), { stack });
}

/** What an error says itself of whether its effect may have happened (see `ErrorDetail`); undefined where its code has to say it. */
export function unclearOf(error: unknown): boolean | undefined {
  return detailOf(error).unclear;
}

/**
 * The code of any error, also after it crossed an RPC boundary; undefined for errors that are not ours, and for what is no code. It never
 * throws itself, as `messageOf` does not.
 */
export function codeOf(error: unknown): ErrorCode | undefined {
  try {
    return isOurs(error) && isCode(error.code) ? error.code : undefined;
  } catch {
    return undefined;
  }
}

/** Errors of others have codes as well, and some the same words. */
function isOurs(error: unknown): error is Error & { readonly code?: unknown; readonly detail?: ErrorDetail } {
  return error instanceof Error && error.name === "MillraceError";
}

/**
 * What users' code threw, or an error that says the same where what it threw cannot be looked at, or not be kept. What it has answered it
 * answers again.
 */
export function readable(thrown: unknown): unknown {
  let isFinal = false;
  try {
    if (!(thrown instanceof Error)) return thrown;
    const { name, message, cause: _, stack: __ } = thrown;
    isFinal = name === NON_RETRYABLE || isTerminal(thrown);
    const size = name.length + message.length + String("code" in thrown ? thrown.code : "").length;
    if (size <= MAX_ERROR_CHARACTERS) return thrown;
  } catch {
    // Its getters throw.
  }
  const said = beginning(messageOf(thrown), KEPT_ERROR_CHARACTERS);
  const code = codeOf(thrown);
  if (code !== undefined) return new MillraceError(code, said, detailOf(thrown));
  return Object.assign(new Error(said), isFinal && { name: NON_RETRYABLE });
}

/** The platform's error that ends a step at once, by its name. */
export const NON_RETRYABLE = "NonRetryableError";

const MAX_ERROR_CHARACTERS = 100_000;

/**
 * True for errors of ours that another attempt cannot cure, also after they crossed an RPC boundary: by their code, or as they say
 * themselves.
 */
export function isTerminal(error: unknown): boolean {
  return TERMINAL.has(codeOf(error) ?? "") || saysTerminal(error);
}

/** True for errors of ours that say themselves that another attempt cannot cure them. */
export function saysTerminal(error: unknown): boolean {
  return detailOf(error).terminal === true;
}

/** Milliseconds that an error asks to wait before the next try, also after it crossed an RPC boundary. */
export function askedDelayMs(error: unknown): number | undefined {
  const { delayMs } = detailOf(error);
  return Number.isFinite(delayMs) ? delayMs : undefined;
}

/**
 * The detail of an error, also after it crossed an RPC boundary: the fields that can be read, and are what they should be. Empty for an
 * error that is not ours.
 */
export function detailOf(error: unknown): ErrorDetail {
  const fields = Object.entries(DETAIL_FIELDS).map(([name, fits]) => [name, fieldOf(error, name as keyof ErrorDetail), fits] as const);
  return Object.fromEntries(fields.flatMap(([name, value, fits]) => (fits(value) ? [[name, value]] : [])));
}

const isText = (value: unknown) => typeof value === "string";
const isNumber = (value: unknown) => typeof value === "number";
const isFlag = (value: unknown) => typeof value === "boolean";

/** What is read of a detail, and what it must be. */
const DETAIL_FIELDS: Omit<Record<keyof ErrorDetail, (value: unknown) => boolean>, "cause"> = {
  issues: Array.isArray,
  delayMs: isNumber,
  terminal: isFlag,
  upstreamStatus: Number.isSafeInteger,
  didYouMean: isText,
  step: isText,
  from: isText,
  to: isText,
  audited: isFlag,
  unclear: isFlag,
};

/** One field of an error's detail. Errors of users may throw where they are looked at. */
function fieldOf(error: unknown, name: keyof ErrorDetail): unknown {
  try {
    return isOurs(error) ? error.detail?.[name] : undefined;
  } catch {
    return undefined;
  }
}
