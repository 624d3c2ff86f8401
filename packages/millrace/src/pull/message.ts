import { MAX_KEY_CHARACTERS } from "../contract/chosen-name.ts";
import { MillraceError } from "../contract/errors.ts";
import { assertFewItems, byteLength } from "../contract/limits.ts";
import { jsonOf } from "../contract/plain.ts";
import { MAX_DELAY_SECONDS } from "../contract/queue.ts";
import { characterCount } from "../contract/text.ts";

/** The encoding of a message's body, with the names that Cloudflare uses. */
export type PullContentType = "json" | "text" | "bytes";

export interface PullSendOptions {
  /** `json`: any JSON value; `text`: a string; `bytes`: an `ArrayBuffer` or a view of an `ArrayBuffer`. Default: `json`. */
  contentType?: PullContentType | undefined;
  /** The delay before the first delivery, in seconds. The delay is at most 12 hours. Default: 0. */
  delaySeconds?: number | undefined;
  /**
   * The key that identifies the message. A message that is sent while the queue remembers the same key is a duplicate, and is not stored. A
   * key has 1 to 500 characters.
   */
  idempotencyKey?: string | undefined;
}

/** A message and its send options. */
export interface PullMessage<Body> extends PullSendOptions {
  body: Body;
}

/** A message in the form that the queue's Durable Object receives, with JSON as a string. */
export interface Posted {
  type: PullContentType;
  body: string | ArrayBuffer;
  key: string | null;
  delayMs: number;
}

/** The result of a send: the message id, and whether the message was a duplicate. A duplicate is not stored again. */
export interface PullSent {
  id: string;
  duplicate: boolean;
}

/** A leased message in the form that the puller gets. */
export interface Leased {
  id: string;
  leaseId: string;
  type: PullContentType;
  /** The body of the message. JSON is sent as a string. */
  body: string | ArrayBuffer;
  sentAt: number;
  /** Number of the message's deliveries, including the present one. */
  attempts: number;
}

/**
 * Maximum size of a body in bytes, and maximum size of a batch in messages and in bytes. A Cloudflare queue has the same limits. A KB is
 * 1000 bytes.
 */
const MAX_PULL_BODY_BYTES = 128_000;
export const MAX_PULL_BATCH = 100;
const MAX_BATCH_BYTES = 256_000;

/** Checks and serialises a batch. Errors: `payload_too_large` and `invalid_payload`, with the position of the refused message. */
export function postedBatch<Body>(queue: string, messages: readonly PullMessage<Body>[]): Posted[] {
  if (messages.length > MAX_PULL_BATCH) {
    throw tooLarge(queue, `${messages.length} messages in a batch, and the limit is ${MAX_PULL_BATCH}: send several batches`);
  }
  const posts = messages.map((message, at) => posted(queue, message, messages.length > 1 ? `message ${at}` : "a message"));
  const bytes = posts.reduce((sum, { body }) => sum + sizeOf(body), 0);
  if (bytes > MAX_BATCH_BYTES && posts.length > 1) {
    throw tooLarge(queue, `a batch of ${bytes} bytes, and the limit is ${MAX_BATCH_BYTES} (256 KB): send several batches`);
  }
  return posts;
}

function posted<Body>(queue: string, message: PullMessage<Body>, at: string): Posted {
  const { contentType: type = "json", delaySeconds = 0, idempotencyKey } = message;
  const body = bodyOf(queue, type, message.body, at);
  const bytes = sizeOf(body);
  if (bytes > MAX_PULL_BODY_BYTES) {
    throw tooLarge(
      queue,
      `${at} of ${bytes} bytes, and the limit is ${MAX_PULL_BODY_BYTES} (128 KB): store it, and send a reference to it`,
    );
  }
  if (!(delaySeconds >= 0 && delaySeconds <= MAX_DELAY_SECONDS)) {
    throw refused(queue, at, "delaySeconds", `must be 0 to ${MAX_DELAY_SECONDS} seconds`);
  }
  if (idempotencyKey !== undefined && !isKey(idempotencyKey)) {
    throw refused(queue, at, "idempotencyKey", `must be a well-formed text of 1 to ${MAX_KEY_CHARACTERS} characters`);
  }
  return { type, body, key: idempotencyKey ?? null, delayMs: delaySeconds * 1000 };
}

function bodyOf(queue: string, type: PullContentType, body: unknown, at: string): string | ArrayBuffer {
  if (type === "json") return bodyAsJson(queue, body, at);
  if (type === "text" && typeof body === "string" && body.isWellFormed()) return body;
  if (type === "bytes" && body instanceof ArrayBuffer) return body;
  if (type === "bytes" && ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice().buffer;
  const takes = { text: "a well-formed string", bytes: "an ArrayBuffer or a view of one" };
  const message = takes[type] ? `must be ${takes[type]} for the content type ${type}` : "must be json, text or bytes";
  throw refused(queue, at, "body", message);
}

function bodyAsJson(queue: string, body: unknown, at: string): string {
  const { text, why } = jsonOf(body);
  if (text === undefined) throw refused(queue, at, "body", `has no JSON: ${why}`);
  assertFewItems(text, { at: `the body of ${at}` });
  return text;
}

function sizeOf(body: string | ArrayBuffer): number {
  return typeof body === "string" ? byteLength(body) : body.byteLength;
}

function isKey(key: unknown): boolean {
  return typeof key === "string" && key !== "" && characterCount(key) <= MAX_KEY_CHARACTERS && key.isWellFormed();
}

function tooLarge(queue: string, what: string): MillraceError {
  return new MillraceError("payload_too_large", `The pull queue "${queue}" cannot accept ${what}.`);
}

function refused(queue: string, at: string, path: string, message: string): MillraceError {
  return new MillraceError("invalid_payload", `The ${path} of ${at} for the pull queue "${queue}" ${message}.`, {
    issues: [{ path, message }],
  });
}
