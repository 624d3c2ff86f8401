import { firstOf } from "../contract/envelope.ts";
import { type Issue, MillraceError } from "../contract/errors.ts";

/** The error for a request that does not match its schema. */
export function invalidRequest(issues: Issue[]): MillraceError {
  const said = `The request is not valid: ${firstOf(issues, "the body")}. See /openapi.json for the request schema.`;
  return new MillraceError("invalid_payload", said, { issues });
}
