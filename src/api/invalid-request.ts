import type { z } from "@hono/zod-openapi";
import { type Issue, MillraceError } from "../engine/index.ts";

/** Zod's issues as ours: one per wrong field, each saying what to do. */
export function issuesOf(error: z.core.$ZodError): Issue[] {
  return error.issues.slice(0, 50).flatMap((issue) => {
    const path = issue.path.map(String);
    if (issue.code === "unrecognized_keys") {
      return issue.keys.map((key) => ({ path: [...path, key].join("."), message: "is not known here: remove it" }));
    }
    const missing = issue.message.endsWith("received undefined");
    return [{ path: path.join("."), message: missing ? "is missing: add it" : issue.message }];
  });
}

/** A request that does not fit its schema. */
export function invalidRequest(issues: Issue[]): MillraceError {
  const [first] = issues;
  const where = first ? `${first.path || "the body"}: ${first.message}` : "it does not fit";
  return new MillraceError("invalid_payload", `The request is not valid at ${where}. /openapi.json says what the route takes.`, { issues });
}
