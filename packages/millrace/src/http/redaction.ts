import type { Context } from "hono";
import * as z from "zod";
import { MillraceError } from "../contract/errors.ts";
import { digest } from "../contract/ids.ts";
import { beginning } from "../contract/text.ts";
import { REVEALED, type Redaction, redactionOf } from "../inspect/redaction.ts";
import { auditDone } from "../store/actions.ts";
import { query } from "../store/d1/retry.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { HttpEnv } from "./env.ts";

/** The query parameter with which a caller asks for sensitive fields. */
export const revealQuery = {
  reveal: z.enum(["true", "false"]).optional().meta({
    description: "True shows fields marked as sensitive. It needs the scope `reveal` and is recorded in the audit. Default: `[redacted]`.",
  }),
};

const MINUTE_MS = 60_000;

/**
 * The redaction of a view. Hides the fields that definitions mark as sensitive, unless the caller reveals these fields. A reveal is audited
 * before the response, once per token, path and minute. Call this function only after the data was found, because a request that gets a 404
 * must not be audited as a reveal. Errors: `forbidden` without the scope `reveal`.
 */
export async function redactionFor(context: Context<HttpEnv>, catalog: Catalog): Promise<Redaction> {
  if (!asksToReveal(context)) return redactionOf(catalog);
  const { caller } = context.var;
  const { path } = context.req;
  const id = digest("reveal", caller.tenantId, caller.id, path, String(Math.floor(Date.now() / MINUTE_MS)));
  const action = { id, verb: "reveal", target: beginning(path, 300), instanceId: null, reason: "" };
  await query(context.env.DB, auditDone({ ...caller, scope: "read reveal" }, action));
  return REVEALED;
}

/** True if the caller asks to see sensitive fields. Errors: `forbidden` without the scope `reveal`. */
export function asksToReveal({ req, var: { caller } }: Context<HttpEnv>): boolean {
  if (req.query("reveal") !== "true") return false;
  if (caller.scopes.includes("reveal")) return true;
  throw new MillraceError("forbidden", "The token lacks the scope `reveal`, which is required to show sensitive fields.");
}
