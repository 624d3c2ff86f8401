import type { z } from "@hono/zod-openapi";
import { firstOf, issuesOf } from "../contract/envelope.ts";
import { type Issue, MillraceError } from "../contract/errors.ts";

/** A request that does not fit its schema. */
export function invalidRequest(issues: Issue[]): MillraceError {
  const said = `The request is not valid: ${firstOf(issues, "the body")}. /openapi.json says what the route takes.`;
  return new MillraceError("invalid_payload", said, { issues });
}

/** Refuses parameters that do not fit, for a router of its own. */
export function refuseInvalid(result: { success: true } | { success: false; error: z.core.$ZodError }): void {
  if (!result.success) throw invalidRequest(issuesOf(result.error));
}
