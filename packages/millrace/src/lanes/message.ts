import { MillraceError } from "../contract/errors.ts";
import { assertFewItems } from "../contract/limits.ts";
import { jsonOf } from "../contract/plain.ts";
import { MAX_DELAY_SECONDS } from "../contract/queue.ts";
import { characterCount } from "../contract/text.ts";

export interface LaneSendOptions {
  /**
   * The key that identifies the message, at most 500 characters. If the lane still stores the key of an earlier message, a new message with
   * the same key is a duplicate and is ignored.
   */
  idempotencyKey?: string | undefined;
  /**
   * The earliest delivery of the message, in seconds from now. Later messages of the same lane wait too. The delay is at most 12 hours.
   * Default: 0.
   */
  delaySeconds?: number | undefined;
}

/** A message in the form in which the sender passes it to the lane's object. */
export interface Posted {
  /** The body as JSON. */
  text: string;
  key: string | null;
  delayMs: number;
}

/** Maximum size of a message's body, in bytes of JSON. A platform queue has the same limit. */
const MAX_LANE_BODY_BYTES = 128 * 1024;
const MAX_IDEMPOTENCY_KEY_CHARACTERS = 500;

/**
 * Checks and serialises a message. Errors: `payload_too_large`; `invalid_payload` for a body that has no JSON form, more than 64 levels, or
 * more than 50,000 keys and items; `invalid_payload` also for an invalid key or delay.
 */
export function posted(lane: string, body: unknown, { idempotencyKey, delaySeconds = 0 }: LaneSendOptions = {}): Posted {
  const { text, why } = jsonOf(body);
  if (text === undefined) return refuse(lane, "body", `has no JSON: ${why}`);
  const bytes = bytesOf(text);
  if (bytes > MAX_LANE_BODY_BYTES) {
    throw new MillraceError(
      "payload_too_large",
      `A message for the lane "${lane}" has ${bytes} bytes, and the limit is ${MAX_LANE_BODY_BYTES} (128 KB): ` +
        "store it, in R2 for instance, and send a reference to it.",
    );
  }
  assertFewItems(text, { at: "body" });
  if (idempotencyKey !== undefined && !isKey(idempotencyKey)) {
    refuse(lane, "idempotencyKey", `must be a well-formed text of 1 to ${MAX_IDEMPOTENCY_KEY_CHARACTERS} characters`);
  }
  if (typeof delaySeconds !== "number" || !(delaySeconds >= 0 && delaySeconds <= MAX_DELAY_SECONDS)) {
    refuse(lane, "delaySeconds", `must be 0 to ${MAX_DELAY_SECONDS} seconds`);
  }
  return { text, key: idempotencyKey ?? null, delayMs: delaySeconds * 1000 };
}

/**
 * The size of a string in bytes. For a short string, the function returns the length in UTF-16 units. Such a string is within the limit,
 * because UTF-8 needs at most three bytes per unit.
 */
function bytesOf(text: string): number {
  return text.length * 3 <= MAX_LANE_BODY_BYTES ? text.length : new TextEncoder().encode(text).length;
}

function isKey(key: unknown): boolean {
  return typeof key === "string" && key !== "" && characterCount(key) <= MAX_IDEMPOTENCY_KEY_CHARACTERS && key.isWellFormed();
}

function refuse(lane: string, path: string, message: string): never {
  throw new MillraceError("invalid_payload", `The ${path} of a message for the lane "${lane}" ${message}.`, {
    issues: [{ path, message }],
  });
}
