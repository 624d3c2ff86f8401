import { beginning, inProgress, MAX_DELAY_SECONDS, MillraceError, notRetryable, retryAfter, retryAfterMs, upstreamRefused } from "millrace";
import * as z from "zod";
import { jsonOf } from "./json.ts";

/** Whom we asked, and the secret we showed: what a message about a refusal needs to know. */
export interface Counterpart {
  /** The name people read in messages, such as `search`. */
  name: string;
  /** The secret, and the variable that holds it so that messages can name the variable and never the value. */
  credential: { variable: string; value: string };
}

/** An upstream's whole answer, read once. */
export interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

/** The wait after a 429 that names none, or a time that has passed. */
const RATE_LIMITED_DELAY_MS = 30_000;
/** The wait while the upstream still works on our key: its first answer is usually seconds away. */
const IN_PROGRESS_DELAY_MS = 2_000;
/** Longer waits are cut to this, the longest a queue can be trusted to hold a message. */
const MAX_RETRY_AFTER_MS = MAX_DELAY_SECONDS * 1000;

const IN_PROGRESS = new Set([409, 425]);
const FORBIDDING = new Set([401, 403]);
const FINAL = new Set([400, 404, 410, 422]);
const MAX_QUOTE_LENGTH = 200;

/** What an answer outside 2xx means for the effect: it did not happen and when to try again, or nobody can say. */
export function refusal(upstream: Counterpart, answer: Answer): MillraceError {
  const { status } = answer;
  const said = `${upstream.name} answered ${status}${quoted(upstream, answer.text)}.`;
  const askedMs = retryAfterMs(answer.headers.get("retry-after"));

  if (status === 429) return comeBack(askedMs, said, status);
  if (status === 503 && askedMs !== undefined) return comeBack(askedMs, said, status);
  if (IN_PROGRESS.has(status)) return inProgress(withinBounds(askedMs, IN_PROGRESS_DELAY_MS), said, status);
  if (FORBIDDING.has(status)) return notRetryable(`${said} Check ${upstream.credential.variable}.`, status);
  if (FINAL.has(status)) return notRetryable(said, status);
  if (status < 400) return notRetryable(`${said} Redirects are not followed: set its URL to the final address.`, status);
  if (status < 500) return upstreamRefused(said, status);
  return new MillraceError("unavailable", `${said} Whether it acted is unknown.`, { upstreamStatus: status });
}

/**
 * A refusal of an upstream that is too busy: it did nothing. `askedMs` is the wait it names. Where it names none, or 0, `unnamedMs` is the
 * wait. Every connector reads a wait through this function, so that the bounds are the same.
 */
export function comeBack(askedMs: number | undefined, said: string, status?: number, unnamedMs = RATE_LIMITED_DELAY_MS): MillraceError {
  return retryAfter(withinBounds(askedMs, unnamedMs), said, status);
}

function withinBounds(askedMs: number | undefined, unnamedMs: number): number {
  return Math.min(askedMs || unnamedMs, MAX_RETRY_AFTER_MS);
}

/**
 * The refusal that a 2xx answer has as its body, read as if it had come with its own status: proxies and gateways answer 200 with `error` in
 * the body. Undefined for every other body. Where the error has no status, it is 502.
 */
export function refusalIn(upstream: Counterpart, body: unknown): MillraceError | undefined {
  const { error } = StatedError.safeParse(body).data ?? {};
  if (!error) return undefined;
  const { status, code } = typeof error === "object" ? error : {};
  const ownStatus = [status, code].map(Number).find((number) => Number.isInteger(number) && number >= 400 && number <= 599);
  return refusal(upstream, { status: ownStatus ?? 502, headers: new Headers(), text: JSON.stringify(body) });
}

const StatedError = z.object({
  error: z.union([z.string(), z.boolean(), z.object({ status: z.unknown().optional(), code: z.unknown().optional() })]),
});

/** The error bodies of the formats we speak: OpenAI, Brave, AT Protocol, and plain problem details. */
const ErrorBody = z.object({
  error: z.union([z.string(), z.object({ message: z.string().optional(), detail: z.string().optional() })]).optional(),
  message: z.string().optional(),
  detail: z.string().optional(),
});

/** The upstream's own words in brackets, cut short, with our credential blotted out: some echo the token they refuse. */
function quoted(upstream: Counterpart, text: string): string {
  const words = wordsOf(text).replaceAll(upstream.credential.value, "***").replace(/\s+/g, " ").trim();
  return words === "" ? "" : ` (${beginning(words, MAX_QUOTE_LENGTH).replace(/\.$/, "")})`;
}

function wordsOf(text: string): string {
  const json = jsonOf(text);
  if (json === undefined) return text;
  const body = ErrorBody.safeParse(json);
  if (!body.success) return "";
  const { error, message, detail } = body.data;
  const named = typeof error === "string" ? error : (error?.message ?? error?.detail);
  return [named, message ?? detail].filter((part) => part !== undefined).join(": ");
}
