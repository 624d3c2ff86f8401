import { Webhook } from "standardwebhooks";
import type { Guarded } from "../contract/address-guard.ts";
import { MillraceError, notRetryable, upstreamRefused } from "../contract/errors.ts";
import { wordOf } from "../limits/upstream.ts";

/** What somebody must be told is put off for so long at most, whatever a receiver asks for. */
const MAX_PUT_OFF_MS = 300_000;
const ANSWER_BYTES = 1024;

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
  readonly isFinal: (response: Response) => boolean;
  /** What is to be done then. */
  readonly next: string;
}

/** Returns for 2xx. Errors: what is tried again, after the pause that the receiver asks for; `not_retryable` for what is final. */
export async function assertTaken(name: string, response: Response, { isFinal, next }: Refusals): Promise<void> {
  const said = `${name} answered ${response.status}`;
  const { status } = response;
  const asked = wordOf(response)?.refusedForMs ?? (status === 429 ? await waitIn(response) : undefined);
  await response.body?.cancel().catch(() => undefined);
  if (response.ok) return;
  if (asked !== undefined) {
    const putOffMs = Math.min(Math.max(1000, asked), MAX_PUT_OFF_MS);
    // As what is out of reach: one that asks for a second at every try would have used up all tries within seconds.
    const message = `${said} and asked for ${Math.ceil(asked / 1000)} seconds.`;
    throw new MillraceError("unavailable", message, { delayMs: putOffMs, upstreamStatus: status });
  }
  throw isFinal(response) ? notRetryable(`${said}: ${next}.`, status) : upstreamRefused(`${said}.`, status);
}

/** Telegram says in its body how long to wait. */
async function waitIn(response: Response): Promise<number | undefined> {
  try {
    const reader = response.body?.getReader();
    const read = await reader?.read();
    await reader?.cancel();
    const body = JSON.parse(new TextDecoder().decode(read?.value?.subarray(0, ANSWER_BYTES)));
    const seconds = body?.parameters?.retry_after;
    return Number.isInteger(seconds) && seconds > 0 ? seconds * 1000 : undefined;
  } catch {
    return undefined;
  }
}
