import { firstOf } from "../contract/envelope.ts";
import { type Issue, MillraceError } from "../contract/errors.ts";

export function invalidRequest(issues: Issue[]): MillraceError {
  const said = `The request is not valid: ${firstOf(issues, "the body")}. See /openapi.json for the request schema.`;
  return new MillraceError("invalid_payload", said, { issues });
}
