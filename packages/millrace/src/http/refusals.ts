import type { MiddlewareHandler } from "hono";
import { refused } from "../access/refused.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { HttpEnv } from "./env.ts";
import { HttpRefusal } from "./problem.ts";

/** HTTP statuses of refused actions: missing scope, not found, invalid state or request. */
const REFUSED: ReadonlySet<number> = new Set([403, 404, 409, 422]);
/** Scopes of routes that only send or read. Invalid requests to these routes are not audited. */
const SAYS: ReadonlySet<string> = new Set(["enqueue", "pull", "read"]);

/**
 * Audits refused requests before the response is sent. A refused action is audited whatever the reason of the refusal. A refused change
 * that is no action is audited only if a scope is missing. An action that is in the audit already is not added again. If the database is
 * unavailable, the response is still sent, without an audit row.
 */
export const auditRefusals: MiddlewareHandler<HttpEnv> = async (context, next) => {
  await next();
  const { error, res, req, env } = context;
  const { status } = res;
  if (req.method === "GET" || req.method === "HEAD" || !REFUSED.has(status)) return;
  const { caller, needed } = context.var;
  if (caller === undefined || needed === undefined) return;
  if (status !== 403 && needed.scopes.every((scope) => SAYS.has(scope))) return;
  if (error instanceof MillraceError && error.detail.audited === true) return;
  const code = error instanceof MillraceError || error instanceof HttpRefusal ? error.code : "invalid_payload";
  try {
    await refused(env, caller, { route: needed.route, path: req.path, code, status });
  } catch (failure) {
    logLine("warn", { log: "refusal_not_audited", route: needed.route, code, error: messageOf(failure) });
  }
};
