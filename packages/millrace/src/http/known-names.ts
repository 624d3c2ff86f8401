import { unknownName } from "../contract/known-fields.ts";
import type { Page } from "../store/d1/paging.ts";
import { invalidRequest } from "./invalid-request.ts";

interface NameFilter {
  readonly name: string | undefined;
  readonly known: Iterable<string>;
}

/**
 * Refuses an empty list for an unknown name, because a caller who misspells the name would conclude that no items exist. A list with rows
 * is returned, because rows of removed names remain. Every page after the first page is returned too. Errors: `invalid_payload`, with the
 * name that was probably meant.
 */
export function refuseUnknownNames({ items, next }: Page<unknown>, filters: Readonly<Record<string, NameFilter>>, cursor?: string): void {
  if (items.length > 0 || next !== null || cursor !== undefined) return;
  const issues = Object.entries(filters).flatMap(([filter, { name, known }]) => {
    const all = new Set(known);
    return name === undefined || all.has(name) ? [] : [unknownName(filter, name, all)];
  });
  if (issues.length > 0) throw invalidRequest(issues);
}
