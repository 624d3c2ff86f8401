import { unknownName } from "../contract/known-fields.ts";
import type { Page } from "../store/d1/paging.ts";
import { invalidRequest } from "./invalid-request.ts";

/** A filter by a name, and the names that the deployment has. */
interface NameFilter {
  readonly name: string | undefined;
  readonly known: Iterable<string>;
}

/** Said of such filters in the document. */
export const KNOWN_NAMES =
  "A name that is no longer deployed, such as a removed workflow, is accepted while rows with it exist. Other unknown names are refused.";

/**
 * Refuses an empty list by a name that the deployment does not know: whoever misspells it would take the answer for "there are none". What
 * has rows is answered, because those of what was removed stay: so is every page behind a first one. Errors: `invalid_payload`, with the name
 * that was probably meant.
 */
export function refuseUnknownNames({ items, next }: Page<unknown>, filters: Readonly<Record<string, NameFilter>>, cursor?: string): void {
  if (items.length > 0 || next !== null || cursor !== undefined) return;
  const issues = Object.entries(filters).flatMap(([filter, { name, known }]) => {
    const all = new Set(known);
    return name === undefined || all.has(name) ? [] : [unknownName(filter, name, all)];
  });
  if (issues.length > 0) throw invalidRequest(issues);
}
