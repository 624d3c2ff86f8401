import { codeOf, messageOf } from "../../contract/errors.ts";

/** What a repeat cannot mend: the message says something that is refused however often it comes. */
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

/** The database's words for a row that it will not have. */
const REFUSED_ROW = /SQLITE_(CONSTRAINT|MISMATCH|TOOBIG)|constraint failed|datatype mismatch|string or blob too big/i;

/** Its words for a statement that it will not have: a table may come with the next deployment. */
const REFUSED_STATEMENT = /SQLITE_(ERROR|RANGE)|malformed JSON|no such (table|column)/i;

/** True for errors that no repeat can mend: the message goes no further at its first attempt. */
export function isHopeless(error: unknown): boolean {
  return CODES.has(codeOf(error));
}

/** The same for an error of a write that one message had for itself. */
export function isRefusedRow(error: unknown): boolean {
  return isHopeless(error) || REFUSED_ROW.test(messageOf(error));
}

/**
 * True for errors of a shared write that one message alone may be the cause of; the others are trouble of the database, and a smaller
 * write would not help.
 */
export function isOfOneMessage(error: unknown): boolean {
  return isRefusedRow(error) || codeOf(error) === "config_invalid" || REFUSED_STATEMENT.test(messageOf(error));
}
