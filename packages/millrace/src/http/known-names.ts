import { unknownName } from "../contract/known-fields.ts";
import type { Page } from "../store/d1/paging.ts";
import { invalidRequest } from "./invalid-request.ts";
import type { Asked } from "./operation.ts";

/**
 * Refuses an empty list for an unknown name, because a caller who misspells the name would conclude that no items exist. A list with rows
 * is returned, because rows of removed names remain. Every page after the first page is returned too. Errors: `invalid_payload`, with the
 * name that was probably meant.
 */
export function refuseUnknownNames(
  {
    catalog,
    context,
    query,
  }: Pick<Asked, "catalog" | "context"> & { query: Partial<Record<"workflow" | "queue" | "reason" | "cursor", string>> },
  { items, next }: Page<unknown>,
): void {
  if (items.length > 0 || next !== null || query.cursor !== undefined) return;
  const known = {
    workflow: catalog.workflows.map(({ name }) => name),
    queue: catalog.consumers.map(({ queue }) => queue.name),
    reason: ["exhausted", ...Object.keys(context.var.problems)],
  };
  const issues = Object.entries(known).flatMap(([filter, names]) => {
    const name = query[filter as keyof typeof known];
    return name === undefined || names.includes(name) ? [] : [unknownName(filter, name, names)];
  });
  if (issues.length > 0) throw invalidRequest(issues);
}
