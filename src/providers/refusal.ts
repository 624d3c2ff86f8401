import { beginning, inProgress, MAX_DELAY_SECONDS, MillraceError, notRetryable, retryAfter, upstreamRefused } from "millrace";
import * as z from "zod";

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

/** The wait after a 429 that names none. */
export const RATE_LIMITED_DELAY_MS = 30_000;
/** The wait while the upstream still works on our key: its first answer is usually seconds away. */
const IN_PROGRESS_DELAY_MS = 2_000;
/** Longer waits are cut to this, the longest a queue can be trusted to hold a message. */
export const MAX_RETRY_AFTER_MS = MAX_DELAY_SECONDS * 1000;

const IN_PROGRESS = new Set([409, 425]);
const FORBIDDING = new Set([401, 403]);
const FINAL = new Set([400, 404, 410, 422]);
const MAX_QUOTE_LENGTH = 200;

/** What an answer outside 2xx means for the effect: it did not happen and when to try again, or nobody can say. */
export function refusal(upstream: Counterpart, answer: Answer): MillraceError {
  const { status } = answer;
  const said = `${upstream.name} answered ${status}${quoted(upstream, answer.text)}.`;
  const askedDelayMs = retryAfterMs(answer.headers.get("retry-after"));

  if (status === 429) return retryAfter(askedDelayMs ?? RATE_LIMITED_DELAY_MS, said, status);
  if (status === 503 && askedDelayMs !== undefined) return retryAfter(askedDelayMs, said, status);
  if (IN_PROGRESS.has(status)) return inProgress(askedDelayMs ?? IN_PROGRESS_DELAY_MS, said, status);
  if (FORBIDDING.has(status)) return notRetryable(`${said} Check ${upstream.credential.variable}.`, status);
  if (FINAL.has(status)) return notRetryable(said, status);
  if (status < 400) return notRetryable(`${said} Redirects are not followed: set its URL to the final address.`, status);
  if (status < 500) return upstreamRefused(said, status);
  return new MillraceError("unavailable", `${said} Whether it acted is unknown.`, { upstreamStatus: status });
}

/** Milliseconds asked for by a `Retry-After` header, in seconds or as an HTTP date; undefined when it says neither. */
export function retryAfterMs(header: string | null, now = Date.now()): number | undefined {
  if (header === null) return undefined;
  const delayMs = /^\s*\d+\s*$/.test(header) ? Number(header) * 1000 : Date.parse(header) - now;
  return Number.isNaN(delayMs) ? undefined : Math.min(Math.max(delayMs, 0), MAX_RETRY_AFTER_MS);
}

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
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return text;
  }
  const body = ErrorBody.safeParse(json);
  if (!body.success) return "";
  const { error, message, detail } = body.data;
  const named = typeof error === "string" ? error : (error?.message ?? error?.detail);
  return [named, message ?? detail].filter((part) => part !== undefined).join(": ");
}
