import { codeOf, messageOf } from "../../contract/errors.ts";

/** Codes that a repeat cannot fix: the message's content is invalid. */
const CODES: ReadonlySet<string | undefined> = new Set([
  "invalid_envelope",
  "invalid_payload",
  "payload_too_large",
  "payload_missing",
  "unknown_message_type",
  "idempotency_key_reused",
  "too_many_hops",
  "not_retryable",
]);

/** Database errors about a row's content. */
const REFUSED_ROW = /SQLITE_(CONSTRAINT|MISMATCH|TOOBIG)|constraint failed|datatype mismatch|string or blob too big/i;

/** Database errors about a statement: a missing table may be created by the next deployment. */
const REFUSED_STATEMENT = /SQLITE_(ERROR|RANGE)|malformed JSON|no such (table|column)/i;

/** True for errors that a repeat cannot fix: the message gets no further attempt. */
export function isHopeless(error: unknown): boolean {
  return CODES.has(codeOf(error));
}

/** True for errors of a write with only one message that a repeat cannot fix. */
export function isRefusedRow(error: unknown): boolean {
  return isHopeless(error) || REFUSED_ROW.test(messageOf(error));
}

/**
 * True for errors of a shared write that a single message may cause; other errors are database failures, and a smaller write would not
 * help.
 */
export function isOfOneMessage(error: unknown): boolean {
  return isRefusedRow(error) || codeOf(error) === "config_invalid" || REFUSED_STATEMENT.test(messageOf(error));
}
