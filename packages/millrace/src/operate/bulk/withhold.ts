import { shortened } from "../../contract/text.ts";
import { hideOfTargets } from "../../inspect/dead-letters.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import type { BulkItem } from "../../store/bulk-items.ts";
import type { BulkCall } from "../../topology/define-bulk-verb.ts";

/** Characters that are kept of why a thing failed. */
const KEPT_CHARACTERS = 300;

/**
 * What came of things, as it is kept: the words of each without what its message marks as sensitive, and cut behind that. They are withheld
 * here, before they are written, and nowhere else: they outlive the messages by which a reader could do it, and are copied with the
 * database.
 */
export async function withheld<Came extends Pick<BulkItem, "target" | "why">>(
  { env, catalog, by }: Pick<BulkCall, "env" | "catalog" | "by">,
  came: readonly Came[],
): Promise<Came[]> {
  const ids = came.flatMap(({ target, why }) => (why === null ? [] : target));
  const hide = await hideOfTargets(env, { ...by, scopes: [] }, redactionOf(catalog), ids);
  return came.map((one) => (one.why === null ? one : { ...one, why: shortened(hide(one.target)(one.why), KEPT_CHARACTERS) }));
}
