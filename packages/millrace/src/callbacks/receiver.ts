import { Webhook } from "standardwebhooks";
import type { Guarded } from "../contract/address-guard.ts";
import { MillraceError, notRetryable, upstreamRefused } from "../contract/errors.ts";
import { wordOf } from "../limits/upstream.ts";

/** Maximum delay before the next attempt, even if the receiver asks for more. */
const MAX_PUT_OFF_MS = 300_000;
/** Maximum characters of a receiver's response that are read, and the time limit for reading. */
const ANSWER_CHARACTERS = 4096;
const ANSWER_READ_MS = 2000;

/** The signature headers of Standard Webhooks, by which a receiver identifies and verifies a request. Each attempt is signed again. */
export function signatureOf(secret: string, id: string, body: string): Record<string, string> {
  const at = new Date();
  return {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    "webhook-signature": new Webhook(secret).sign(id, at, body),
  };
}

/**
 * The URL of a checked address. `what` is the name of the address in the error. Errors: `not_retryable` for an address that may not be
 * called.
 */
export function guardedUrl(guarded: Guarded, what: string): URL {
  if (guarded.verdict === "refused") throw notRetryable(`Not sent: ${what} ${guarded.reason}.`);
  if (guarded.verdict === "unknown") throw new MillraceError("unavailable", `Not sent: ${guarded.reason}.`);
  return guarded.url;
}

/** How a receiver's refusal is interpreted. */
interface Refusals {
  /** True when a retry is useless until an operator has fixed the cause. */
  readonly isFinal: (status: number) => boolean;
  /** The advice to the operator after a final refusal. */
  readonly next: string;
  /** Finds a refusal in the body of a response with status 2xx. Default: only the status counts, and the body is not read. */
  readonly refusedIn?: (body: string) => BodyRefusal | undefined;
}

/**
 * Returns if the status is 2xx and `refusedIn` finds no refusal. Errors: `unavailable` or `upstream_refused` for a refusal to retry, after
 * the delay that the receiver asks for; `not_retryable` for a final refusal.
 */
export async function assertTaken(name: string, response: Response, { isFinal, next, refusedIn }: Refusals): Promise<void> {
  const body = response.status === 429 || (refusedIn && response.ok) ? await beginningOf(response) : "";
  const refused = response.ok ? refusedIn?.(body) : undefined;
  await response.body?.cancel().catch(() => undefined);
  if (response.ok && refused === undefined) return;
  const status = refused?.status ?? response.status;
  const said = refused ? `${name} answered ${response.status}, and its body says ${refused.words}` : `${name} answered ${status}`;
  // A Retry-After together with a refusal in the body means a 429, whatever status the body contains.
  const limited = refused && response.headers.has("retry-after") ? 429 : status;
  const asked = wordOf({ status: limited, headers: response.headers })?.refusedForMs ?? (status === 429 ? waitIn(body) : undefined);
  if (asked !== undefined) {
    const putOffMs = Math.min(Math.max(1000, asked), MAX_PUT_OFF_MS);
    // The error `unavailable` uses up no retries, because a receiver that asks for one second each time would otherwise use up all retries
    // within seconds.
    const message = `${said} and asked for ${Math.ceil(asked / 1000)} seconds.`;
    throw new MillraceError("unavailable", message, { delayMs: putOffMs, upstreamStatus: status });
  }
  throw isFinal(status) ? notRetryable(`${said}: ${next}.`, status) : upstreamRefused(`${said}.`, status);
}

/** A refusal in the body of a 2xx: the equivalent status, and the receiver's message. */
export interface BodyRefusal {
  readonly status: number;
  readonly words: string;
}

/** Telegram's delay is in the body. */
function waitIn(body: string): number | undefined {
  const seconds = objectIn(body)?.parameters?.retry_after;
  return Number.isInteger(seconds) && seconds > 0 ? seconds * 1000 : undefined;
}

/** The body as a JSON object; undefined if it is none. */
// biome-ignore lint/suspicious/noExplicitAny: an answer from outside has no type.
export function objectIn(body: string): Record<string, any> | undefined {
  try {
    const json: unknown = JSON.parse(body);
    return typeof json === "object" && json !== null && !Array.isArray(json) ? json : undefined;
  } catch {
    return undefined;
  }
}

/** The first bytes of a response as text. Does not wait for the end of a slow body. */
async function beginningOf(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (!reader) return "";
  const late = setTimeout(() => reader.cancel().catch(() => undefined), ANSWER_READ_MS);
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (let read = await reader.read(); !read.done && text.length < ANSWER_CHARACTERS; read = await reader.read()) {
      text += decoder.decode(read.value.subarray(0, ANSWER_CHARACTERS), { stream: true });
    }
  } catch {
    // The connection broke off: the text until then is used.
  } finally {
    clearTimeout(late);
    await reader.cancel().catch(() => undefined);
  }
  return text;
}
