import { carried, KEPT_ERROR_CHARACTERS, messageOf } from "./error-words.ts";
import { beginning } from "./text.ts";

export { messageOf };

/** The engine's error codes. The string identifies the error, because the string survives RPC and the platform's wrapping of errors. */
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
  "child_failed",
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

/** An engine's error code, or an error code of an app, which has up to 64 lower case letters, digits and underscores. */
export type ErrorCode = EngineCode | (string & {});

/** True for a valid error code. An invalid error code could contain data that must not be shown. */
export function isCode(code: unknown): code is ErrorCode {
  return typeof code === "string" && /^[a-z][a-z0-9_]{0,63}$/.test(code);
}

export function isEngineCode(code: ErrorCode): code is EngineCode {
  return (ENGINE_CODES as readonly ErrorCode[]).includes(code);
}

/** Error codes of failures that a further attempt cannot fix. */
const TERMINAL: ReadonlySet<ErrorCode> = new Set<EngineCode>([
  "not_retryable",
  "output_too_large",
  "output_not_serializable",
  "payload_too_large",
  "nondeterministic_steps",
  "invalid_payload",
  "invalid_envelope",
  "config_invalid",
  "child_failed",
]);

/** One problem with one input field. The path of the field is dotted, such as `payload.keyword`. */
export interface Issue {
  path: string;
  message: string;
}

/** The end of a child that did not complete. */
export interface ChildFailure {
  readonly id: string;
  readonly status: string;
  readonly code: ErrorCode;
  readonly message: string;
}

export interface ErrorDetail {
  /** The invalid fields of the input, with a message for each. */
  issues?: Issue[];
  /** Delay before the next attempt, in milliseconds. */
  delayMs?: number;
  /** True for an error with an app's own code that no further attempt can fix: such an error ends its step at once. */
  terminal?: boolean;
  /** The HTTP status of the upstream's response. */
  upstreamStatus?: number;
  /** A known name that is similar to the unknown name. */
  didYouMean?: string;
  /** The step in which the app's code threw the error. */
  step?: string;
  from?: string;
  to?: string;
  /** The end of a child that did not complete: its instance id, its status, and the code and the message of its failure. */
  child?: ChildFailure;
  /** True when the refused action of an operator already has its audit row. */
  audited?: boolean;
  /**
   * True for a refusal after an attempt with an unknown outcome: the refusal says nothing about that attempt. False for an error after
   * which the effect certainly did not happen, whatever the code.
   */
  unclear?: boolean;
  cause?: unknown;
}

/** The engine's error class. `message` contains the problem and the next action, for the reader of the log or response. */
export class MillraceError extends Error {
  override readonly name = "MillraceError";
  readonly code: ErrorCode;
  readonly detail: ErrorDetail;

  /**
   * A cause that cannot cross an RPC boundary is replaced by its message: otherwise the error would lose its name, code and detail at the
   * boundary.
   */
  constructor(code: ErrorCode, message: string, { cause, ...detail }: ErrorDetail = {}) {
    super(message, { cause: carried(cause) });
    this.code = code;
    this.detail = detail;
  }
}

/**
 * The error for an upstream that asked to retry later (429, 503 with `Retry-After`). The step's next attempt waits `delayMs`, at most 12
 * hours, and at least the delay in the step's `retries`. With `delayMs` 0 only the delay in the step's `retries` applies. The error means
 * that the effect did not happen.
 */
export function retryAfter(delayMs: number, message: string, upstreamStatus?: number): MillraceError {
  return new MillraceError("retry_after", message, { delayMs, upstreamStatus });
}

/**
 * The error for an upstream that still processes an earlier attempt with the same key (409, 425): the outcome is unknown. The next attempt
 * waits `delayMs`. A step of class `lookup` checks the effect before the next attempt. A step of class `once` waits for an operator
 * instead.
 */
export function inProgress(delayMs: number, message: string, upstreamStatus?: number): MillraceError {
  return new MillraceError("in_progress", message, { delayMs, upstreamStatus });
}

/**
 * The error for an upstream that reported that the request had no effect (most 4xx). The step's retries apply. Even a `once` effect may
 * run again, because nothing happened.
 */
export function upstreamRefused(message: string, upstreamStatus?: number): MillraceError {
  return new MillraceError("upstream_refused", message, { upstreamStatus });
}

/**
 * The error for a failure that no retry can fix (bad credentials, a rejected request). The error ends its step at once and means that
 * the effect did not happen.
 */
export function notRetryable(message: string, upstreamStatus?: number): MillraceError {
  return new MillraceError("not_retryable", message, { upstreamStatus });
}

/** True for an error after which the effect certainly did not happen, so that even a `once` effect may be tried again. */
export function isDefiniteRefusal(error: unknown): boolean {
  const unclear = unclearOf(error);
  return unclear === false || (unclear === undefined && REFUSALS.has(codeOf(error) ?? ""));
}

const REFUSALS: ReadonlySet<ErrorCode> = new Set<EngineCode>(["retry_after", "upstream_refused", "not_retryable", "lock_held"]);

/**
 * Limits a refusal to its own attempt, because an earlier attempt may have had the effect. An error that is no refusal is returned
 * unchanged.
 */
export function asUnclear(error: unknown): unknown {
  const code = codeOf(error);
  if (code === undefined || !isDefiniteRefusal(error)) return error;
  const { stack, cause } = error as Error;
  return Object.assign(new MillraceError(code, messageOf(error), { ...detailOf(error), unclear: true, cause }), { stack });
}

/** The error's own `unclear` field (see `ErrorDetail`); undefined if only the error's code decides. */
export function unclearOf(error: unknown): boolean | undefined {
  return detailOf(error).unclear;
}

/** The code of an engine error, also after an RPC boundary; undefined for other errors and invalid codes. Never throws. */
export function codeOf(error: unknown): ErrorCode | undefined {
  try {
    return isOurs(error) && isCode(error.code) ? error.code : undefined;
  } catch {
    return undefined;
  }
}

/** An error of a library may also have a `code`, which may equal a code of the engine. */
function isOurs(error: unknown): error is Error & { readonly code?: unknown; readonly detail?: ErrorDetail } {
  return error instanceof Error && error.name === "MillraceError";
}

/** The thrown value, or a plain error with the same message if the thrown value cannot be inspected or is too large. */
export function readable(thrown: unknown): unknown {
  let isFinal = false;
  try {
    if (!(thrown instanceof Error)) return thrown;
    const { name, message, cause: _, stack: __ } = thrown;
    isFinal = name === NON_RETRYABLE || isTerminal(thrown);
    const size = name.length + message.length + String("code" in thrown ? thrown.code : "").length;
    if (size <= MAX_ERROR_CHARACTERS) return thrown;
  } catch {
    // A getter of the thrown value has thrown.
  }
  const said = beginning(messageOf(thrown), KEPT_ERROR_CHARACTERS);
  const code = codeOf(thrown);
  if (code !== undefined) return new MillraceError(code, said, detailOf(thrown));
  return Object.assign(new Error(said), isFinal && { name: NON_RETRYABLE });
}

/** The name of the platform's error that ends a step at once. */
export const NON_RETRYABLE = "NonRetryableError";

const MAX_ERROR_CHARACTERS = 100_000;

/** True for engine errors that a further attempt cannot fix, by their code or their `terminal` field, also after an RPC boundary. */
export function isTerminal(error: unknown): boolean {
  return TERMINAL.has(codeOf(error) ?? "") || saysTerminal(error);
}

export function saysTerminal(error: unknown): boolean {
  return detailOf(error).terminal === true;
}

/** The delay that an error asks for before the next attempt, in milliseconds, also after an RPC boundary. */
export function askedDelayMs(error: unknown): number | undefined {
  const { delayMs } = detailOf(error);
  return Number.isFinite(delayMs) ? delayMs : undefined;
}

/**
 * The detail of an error, also after an RPC boundary: only readable fields of the right type. The detail of an error that is not the
 * engine's is empty.
 */
export function detailOf(error: unknown): ErrorDetail {
  const fields = Object.entries(DETAIL_FIELDS).map(([name, fits]) => [name, fieldOf(error, name as keyof ErrorDetail), fits] as const);
  return Object.fromEntries(fields.flatMap(([name, value, fits]) => (fits(value) ? [[name, value]] : [])));
}

const isText = (value: unknown) => typeof value === "string";
const isNumber = (value: unknown) => typeof value === "number";
const isObject = (value: unknown) => typeof value === "object" && value !== null;
const isFlag = (value: unknown) => typeof value === "boolean";

/** The fields of an error's detail, each with a check of its type. */
const DETAIL_FIELDS: Omit<Record<keyof ErrorDetail, (value: unknown) => boolean>, "cause"> = {
  issues: Array.isArray,
  delayMs: isNumber,
  terminal: isFlag,
  upstreamStatus: Number.isSafeInteger,
  didYouMean: isText,
  step: isText,
  from: isText,
  to: isText,
  child: isObject,
  audited: isFlag,
  unclear: isFlag,
};

/** Reads one field of an error's detail. A getter of an app's error may throw. */
function fieldOf(error: unknown, name: keyof ErrorDetail): unknown {
  try {
    return isOurs(error) ? error.detail?.[name] : undefined;
  } catch {
    return undefined;
  }
}
