import { type Issue, MillraceError } from "../engine/index.ts";

/** A request that does not fit its schema. */
export function invalidRequest(issues: Issue[]): MillraceError {
  const [first] = issues;
  const where = first ? `${first.path || "the body"}: ${first.message}` : "it does not fit";
  return new MillraceError("invalid_payload", `The request is not valid at ${where}. /openapi.json says what the route takes.`, { issues });
}
