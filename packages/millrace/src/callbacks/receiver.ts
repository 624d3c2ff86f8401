import { Webhook } from "standardwebhooks";
import type { Guarded } from "../contract/address-guard.ts";
import { MillraceError, notRetryable, upstreamRefused } from "../contract/errors.ts";
import { wordOf } from "../limits/upstream.ts";

/** What somebody must be told is put off for so long at most, whatever a receiver asks for. */
const MAX_PUT_OFF_MS = 300_000;
/** The most characters of an answer that are read, and the longest time for that. */
const ANSWER_CHARACTERS = 4096;
const ANSWER_READ_MS = 2000;

/** The headers by which a receiver knows a request and who sent it, as Standard Webhooks has them: signed now, anew at each attempt. */
export function signatureOf(secret: string, id: string, body: string): Record<string, string> {
  const at = new Date();
  return {
    "webhook-id": id,
    "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    "webhook-signature": new Webhook(secret).sign(id, at, body),
  };
}

/** Where a request may go. `what` is what the address is called. Errors: `not_retryable` for one that may not be called. */
export function guardedUrl(guarded: Guarded, what: string): URL {
  if (guarded.verdict === "refused") throw notRetryable(`Not sent: ${what} ${guarded.reason}.`);
  if (guarded.verdict === "unknown") throw new MillraceError("unavailable", `Not sent: ${guarded.reason}.`);
  return guarded.url;
}

/** How a receiver's refusal is read. */
interface Refusals {
  /** True where trying again is of no use before somebody has mended something. */
  readonly isFinal: (status: number) => boolean;
  /** What is to be done then. */
  readonly next: string;
  /** Finds a refusal in the body of a 2xx. Default: the status alone counts, and the body is not read. */
  readonly refusedIn?: (body: string) => BodyRefusal | undefined;
}

/**
 * Returns for a 2xx that `refusedIn` finds no refusal in. Errors: `unavailable` or `upstream_refused` for what is tried again, after the pause
 * that the receiver asks for; `not_retryable` for what is final.
 */
export async function assertTaken(name: string, response: Response, { isFinal, next, refusedIn }: Refusals): Promise<void> {
  const body = response.status === 429 || (refusedIn && response.ok) ? await beginningOf(response) : "";
  const refused = response.ok ? refusedIn?.(body) : undefined;
  await response.body?.cancel().catch(() => undefined);
  if (response.ok && refused === undefined) return;
  const status = refused?.status ?? response.status;
  const said = refused ? `${name} answered ${response.status}, and its body says ${refused.words}` : `${name} answered ${status}`;
  // A wait beside a refusal in the body is that of a 429, whatever the body's own status is.
  const limited = refused && response.headers.has("retry-after") ? 429 : status;
  const asked = wordOf({ status: limited, headers: response.headers })?.refusedForMs ?? (status === 429 ? waitIn(body) : undefined);
  if (asked !== undefined) {
    const putOffMs = Math.min(Math.max(1000, asked), MAX_PUT_OFF_MS);
    // As what is out of reach: one that asks for a second at every try would have used up all tries within seconds.
    const message = `${said} and asked for ${Math.ceil(asked / 1000)} seconds.`;
    throw new MillraceError("unavailable", message, { delayMs: putOffMs, upstreamStatus: status });
  }
  throw isFinal(status) ? notRetryable(`${said}: ${next}.`, status) : upstreamRefused(`${said}.`, status);
}

/** A refusal in the body of a 2xx: the status it means, and the receiver's words for it. */
export interface BodyRefusal {
  readonly status: number;
  readonly words: string;
}

/** Telegram says in its body how long to wait. */
function waitIn(body: string): number | undefined {
  const seconds = objectIn(body)?.parameters?.retry_after;
  return Number.isInteger(seconds) && seconds > 0 ? seconds * 1000 : undefined;
}

/** What JSON a body is; undefined where it is none. */
// biome-ignore lint/suspicious/noExplicitAny: an answer from outside has no type.
export function objectIn(body: string): Record<string, any> | undefined {
  try {
    const json: unknown = JSON.parse(body);
    return typeof json === "object" && json !== null && !Array.isArray(json) ? json : undefined;
  } catch {
    return undefined;
  }
}

/** The first bytes of an answer as text. An answer that does not end in time has said its status: its body is not waited for. */
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
    // It broke off: its beginning is all there is.
  } finally {
    clearTimeout(late);
    await reader.cancel().catch(() => undefined);
  }
  return text;
}
