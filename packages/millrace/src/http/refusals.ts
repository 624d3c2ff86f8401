import type { MiddlewareHandler } from "hono";
import { refused } from "../access/refused.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import type { HttpEnv } from "./env.ts";
import { HttpRefusal } from "./problem.ts";

/** Answers to somebody who wanted to act, and was not let: without the scope, of something that is not theirs, or not as it stands. */
const REFUSED: ReadonlySet<number> = new Set([403, 404, 409, 422]);
/** Scopes of whoever says things, or looks: what is wrong with a message is between them and the route. */
const SAYS: ReadonlySet<string> = new Set(["enqueue", "pull", "read"]);

/**
 * Audits what was attempted and refused, before the answer goes: an action for whatever reason, everything else that changes something
 * where the token was not allowed to. An action that has its row already has no second one. A database that takes no row keeps nobody from
 * their answer.
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
