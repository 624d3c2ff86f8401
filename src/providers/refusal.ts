import { errors, MillraceError, notRetryable, retryAfter, texts, upstreamRefused } from "millrace";
import * as z from "zod";
import { jsonOf } from "./json.ts";

/** The parts of an upstream that error messages need: its name and the app's credential. */
export interface Counterpart {
  /** The display name of the upstream, such as `search`. */
  name: string;
  /**
   * The credential for the upstream, with the name of its variable. Error messages contain the name of the variable and never the value.
   */
  credential: { variable: string; value: string };
}

/** An upstream's whole response, read once. */
export interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

/** The delay after a 429 response that names no time for the next request, or a time that is over. */
const RATE_LIMITED_DELAY_MS = 30_000;
/** The delay while the upstream still processes a request with this key. The upstream usually finishes that request within seconds. */
const IN_PROGRESS_DELAY_MS = 2_000;
/** Maximum delay that an upstream can request. A queue cannot delay a message longer than this. */
const MAX_RETRY_AFTER_MS = 12 * 3600 * 1000;

const IN_PROGRESS = new Set([409, 425]);
/** The status 529 is not registered. Several model vendors use 529 with the meaning of 503. */
export const OVERLOADED = 529;
const FORBIDDING = new Set([401, 403]);
const FINAL = new Set([400, 402, 404, 405, 410, 413, 422, 451]);
const MAX_QUOTE_LENGTH = 200;

/**
 * Creates the error of a response outside 2xx. The error says that the effect did not happen, or that its outcome is unknown. The error may
 * contain the delay of the next attempt.
 */
export function refusal(upstream: Counterpart, answer: Answer): MillraceError {
  const { status } = answer;
  const said = `${upstream.name} answered ${status}${quoted(upstream, answer.text)}.`;
  const askedMs = errors.retryAfterMs(answer.headers.get("retry-after")) ?? resetMs(answer.headers);

  if (status === 429) return comeBack(askedMs, said, status);
  if ((status === 503 || status === OVERLOADED) && askedMs !== undefined) return comeBack(askedMs, said, status);
  if (IN_PROGRESS.has(status)) return errors.inProgress(withinBounds(askedMs, IN_PROGRESS_DELAY_MS), said, status);
  if (FORBIDDING.has(status)) return notRetryable(`${said} Check ${upstream.credential.variable}.`, status);
  if (FINAL.has(status)) return notRetryable(said, status);
  if (status < 400) return notRetryable(`${said} Redirects are not followed: set its URL to the final address.`, status);
  if (status < 500) return upstreamRefused(said, status);
  return new MillraceError("unavailable", `${said} The outcome is unknown.`, { upstreamStatus: status });
}

/**
 * Creates the error for an upstream that is too busy and did nothing. `askedMs` is the delay that the upstream names; if the upstream names
 * no delay, or 0, `unnamedMs` applies. Every connector uses this function, so that the same minimum and maximum delay apply to all
 * connectors.
 */
export function comeBack(askedMs: number | undefined, said: string, status?: number, unnamedMs = RATE_LIMITED_DELAY_MS): MillraceError {
  return retryAfter(withinBounds(askedMs, unnamedMs), said, status);
}

/**
 * Returns the milliseconds until a used-up limit resets. The header `X-RateLimit-Reset` contains a number of seconds, or a time since 1970
 * in seconds or milliseconds. The result is 0 for a time that is over. The result is undefined if `X-RateLimit-Remaining` is not 0.
 */
export function resetMs(headers: Headers, now = Date.now()): number | undefined {
  const reset = headers.get("x-ratelimit-reset")?.trim() ?? "";
  if (headers.get("x-ratelimit-remaining")?.trim() !== "0" || !/^\d+$/.test(reset)) return undefined;
  const at = Number(reset);
  return at < 1e9 ? at * 1000 : Math.max((at < 1e12 ? at * 1000 : at) - now, 0);
}

function withinBounds(askedMs: number | undefined, unnamedMs: number): number {
  return Math.min(askedMs || unnamedMs, MAX_RETRY_AFTER_MS);
}

/**
 * Returns the error in the body of a 2xx response, as if the response had the status of the error. Proxies and gateways return 200 with
 * `error` in the body. The result is undefined for every other body. `meaning` handles the upstream's special cases.
 */
export function refusalIn(
  upstream: Counterpart,
  { status, headers }: Answer,
  body: unknown,
  meaning?: (answer: Answer) => MillraceError | undefined,
): MillraceError | undefined {
  const { error } = StatedError.safeParse(body).data ?? {};
  if (!error) return undefined;
  const text = JSON.stringify(body);
  const stated = statusOf(typeof error === "object" ? error : {});
  if (stated !== undefined) {
    const answer = { status: stated, headers, text };
    return meaning?.(answer) ?? refusal(upstream, answer);
  }
  const said = `${upstream.name} answered ${status}, and its body is an error${quoted(upstream, text)}.`;
  const askedMs = errors.retryAfterMs(headers.get("retry-after"));
  if (askedMs !== undefined) return comeBack(askedMs, said, status);
  return new MillraceError("unavailable", `${said} The outcome is unknown.`, { upstreamStatus: status });
}

const StatedError = z.object({
  error: z.union([z.string(), z.boolean(), z.looseObject({})]),
});

/** The HTTP status for each error name of OpenAI and compatible servers. */
const STATUSES: Record<string, number> = {
  insufficient_quota: 429,
  rate_limit_exceeded: 429,
  rate_limit_error: 429,
  invalid_request_error: 400,
  content_filter: 400,
  content_policy_violation: 400,
  context_length_exceeded: 400,
  authentication_error: 401,
  invalid_api_key: 401,
  permission_error: 403,
  model_not_found: 404,
  not_found_error: 404,
};

function statusOf({ status, code, type }: Record<string, unknown>): number | undefined {
  const stated = [status, code].map(Number).find((number) => Number.isInteger(number) && number >= 400 && number <= 599);
  return stated ?? [code, type].map((word) => (typeof word === "string" ? STATUSES[word] : undefined)).find((one) => one !== undefined);
}

/**
 * Returns the upstream's message in brackets, shortened, with the app's credential redacted, because some upstreams repeat the refused
 * token.
 */
function quoted(upstream: Counterpart, text: string): string {
  const words = wordsOf(text).replaceAll(upstream.credential.value, "***").replace(/\s+/g, " ").trim();
  return words === "" ? "" : ` (${texts.beginning(words, MAX_QUOTE_LENGTH).replace(/\.$/, "")})`;
}

/**
 * Returns the message in an error body. The supported formats of errors (OpenAI, Brave, AT Protocol, problem details) have the message in
 * `error`, `message` or `detail`, each a text or an object of the same fields. A body without these fields is quoted unchanged.
 */
function wordsOf(text: string): string {
  const json = jsonOf(text);
  const body = Body.safeParse(Array.isArray(json) && json.length === 1 ? json[0] : json).data;
  const said = [wordsIn(body?.error), wordsIn(body?.message) ?? wordsIn(body?.detail)].filter((part) => part !== undefined);
  if (said.length > 0) return said.join(": ");
  return isBare(json) ? "" : text;
}

const Body = z.object({ error: z.unknown(), message: z.unknown(), detail: z.unknown() }).partial();

function wordsIn(field: unknown, depth = 0): string | undefined {
  if (typeof field === "string") return field.trim() === "" ? undefined : field;
  // If a validator returns a list of errors, the message of the first error is used.
  if (Array.isArray(field)) return wordsIn(field[0], depth);
  if (typeof field !== "object" || field === null || depth > 2) return undefined;
  const { message, detail, msg } = field as Record<string, unknown>;
  return wordsIn(message, depth + 1) ?? wordsIn(detail, depth + 1) ?? wordsIn(msg, depth + 1);
}

/** True for a JSON value without content: `{}`, `[]`, `null`. */
function isBare(json: unknown): boolean {
  return json === null || (typeof json === "object" && Object.keys(json).length === 0);
}
