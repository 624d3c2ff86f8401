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

/** The parameter by which somebody who may sees what is marked as sensitive. */
export const revealQuery = {
  reveal: z.enum(["true", "false"]).optional().meta({
    description: "True shows fields marked as sensitive. It needs the scope `reveal` and is recorded in the audit. Default: `[redacted]`.",
  }),
};

const MINUTE_MS = 60_000;

/**
 * What the caller of a view may see: what the definitions mark is withheld, unless it is to be revealed. That is audited before anything is
 * answered, once for each token, path and minute: so a view asks for it once it has found what it shows, because what is not there reveals
 * nothing. Errors: `forbidden` without the scope `reveal`.
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

/** True for a caller who asks to see what is marked, and may. Errors: `forbidden` without the scope `reveal`. */
export function asksToReveal({ req, var: { caller } }: Context<HttpEnv>): boolean {
  if (req.query("reveal") !== "true") return false;
  if (caller.scopes.includes("reveal")) return true;
  throw new MillraceError("forbidden", "The token lacks the scope `reveal`, which is required to show sensitive fields.");
}
