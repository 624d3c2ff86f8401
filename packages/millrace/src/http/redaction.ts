import * as z from "zod";
import { MillraceError } from "../contract/errors.ts";
import { digest } from "../contract/ids.ts";
import { hiddenIn } from "../contract/row.ts";
import { beginning } from "../contract/text.ts";
import { REVEALED, type Redaction, redactionOf } from "../inspect/redaction.ts";
import { auditDone } from "../store/actions.ts";
import type { Page } from "../store/d1/paging.ts";
import { query } from "../store/d1/retry.ts";
import type { Asked } from "./operation.ts";
import { page, refuseUnknownNames } from "./paging.ts";

export const revealQuery = {
  reveal: z
    .optional(z.enum(["true", "false"]))
    .describe("True shows fields marked as sensitive. It needs the scope `reveal` and is recorded in the audit. Default: `[redacted]`."),
};

const MINUTE_MS = 60_000;

type Asking = Pick<Asked, "env" | "by" | "catalog" | "context">;

/**
 * The redaction of a view. A reveal is audited once per token, path and minute. Call this function only after the data was found, because
 * a request that gets a 404 must not be audited as a reveal. Errors: `forbidden` without the scope `reveal`.
 */
export async function redactionFor(asked: Asking): Promise<Redaction> {
  if (!asksToReveal(asked)) return redactionOf(asked.catalog);
  const { env, by, context } = asked;
  const { path } = context.req;
  const id = digest("reveal", by.tenantId, by.id, path, String(Math.floor(Date.now() / MINUTE_MS)));
  const action = { id, verb: "reveal", target: beginning(path, 300), instanceId: null, reason: "" };
  await query(env.DB, auditDone({ ...by, scope: "read reveal" }, action));
  return REVEALED;
}

/** True if the caller asks to see sensitive fields. Errors: `forbidden` without the scope `reveal`. */
export function asksToReveal({ by, context }: Pick<Asked, "by" | "context">): boolean {
  if (context.req.query("reveal") !== "true") return false;
  if (by.scopes.includes("reveal")) return true;
  throw new MillraceError("forbidden", "The token lacks the scope `reveal`, which is required to show sensitive fields.");
}

/** A page of rows of instances, hidden as by `hiddenRows`. Errors: as `refuseUnknownNames`. */
export async function hiddenPage<Row extends { readonly instance_id: string }>(
  asked: Asking & Parameters<typeof refuseUnknownNames>[0],
  of: z.ZodObject,
  found: Page<Row>,
) {
  const { items, next } = refuseUnknownNames(asked, found);
  return page({ items: await hiddenRows(asked, of, items, (row) => row.instance_id), next });
}

/** Rows with the sensitive texts of their instances hidden (see `redactionFor`). */
export async function hiddenRows<Row extends object>(
  asked: Asking,
  of: z.ZodObject,
  rows: readonly Row[],
  instanceOf: (row: Row) => string,
): Promise<Row[]> {
  const hide = await (await redactionFor(asked)).ofInstances(asked.env, asked.by, rows.map(instanceOf));
  return rows.map((row) => hiddenIn(of, row, hide(instanceOf(row))));
}
