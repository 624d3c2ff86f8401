import { codeOf, messageOf } from "../../contract/errors.ts";
import { isElsewhere } from "../../store/d1/trouble.ts";

/** Error codes of messages with invalid content, which a repeat cannot fix. */
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

/** Database errors about the content of a row. */
const REFUSED_ROW = /SQLITE_(CONSTRAINT|MISMATCH|TOOBIG)|constraint failed|datatype mismatch|string or blob too big/i;

/** Database errors about a statement. A repeat can fix such an error, because the next deployment may create a missing table. */
const REFUSED_STATEMENT = /SQLITE_(ERROR|RANGE)|malformed JSON|no such (table|column)/i;

/** True for errors that a repeat cannot fix. A message with such an error gets no further attempt. */
export function isHopeless(error: unknown): boolean {
  return CODES.has(codeOf(error));
}

/** True for an error of a single message's write that a repeat cannot fix. */
export function isRefusedRow(error: unknown): boolean {
  return isHopeless(error) || (REFUSED_ROW.test(messageOf(error)) && !isElsewhere(error));
}

/**
 * True for errors of a shared write that a single message may cause. All other errors are failures of the database, which would also affect
 * a smaller write.
 */
export function isOfOneMessage(error: unknown): boolean {
  return isRefusedRow(error) || isElsewhere(error) || codeOf(error) === "config_invalid" || REFUSED_STATEMENT.test(messageOf(error));
}
