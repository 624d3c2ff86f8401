import { shortened } from "../../contract/text.ts";
import { hideOfTargets } from "../../inspect/dead-letters.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import type { BulkItem } from "../../store/bulk-items.ts";
import type { BulkCall } from "../../topology/define-bulk-verb.ts";

const KEPT_CHARACTERS = 300;

/**
 * The results of items in their stored form: each reason is shortened, and the message's sensitive values are redacted in the reason. The
 * results are kept longer than the messages, so the values could not be redacted at a later read.
 */
export async function withheld<Came extends Pick<BulkItem, "target" | "why">>(
  { env, catalog, by }: Pick<BulkCall, "env" | "catalog" | "by">,
  came: readonly Came[],
): Promise<Came[]> {
  const ids = came.flatMap(({ target, why }) => (why === null ? [] : target));
  const hide = await hideOfTargets(env, { ...by, scopes: [] }, redactionOf(catalog), ids);
  return came.map((one) => (one.why === null ? one : { ...one, why: shortened(hide(one.target)(one.why), KEPT_CHARACTERS) }));
}
