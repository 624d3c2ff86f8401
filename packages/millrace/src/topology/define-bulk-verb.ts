import { MillraceError } from "../contract/errors.ts";
import type { BulkCallOf, BulkVerbOf } from "./bulk-verb.ts";
import type { AnyBulkVerb, Catalog } from "./catalog.ts";

/** The arguments of a bulk action's functions. */
export type BulkCall = BulkCallOf<Catalog>;

export type BulkVerb<Filter = unknown> = BulkVerbOf<Filter, Catalog>;

/** Declares a verb for bulk actions, for the catalog's `bulkVerbs`. Errors: `config_invalid` for an invalid name. */
export function defineBulkVerb<Filter>(verb: BulkVerb<Filter>): AnyBulkVerb {
  if (/^[a-z][a-z_]{0,31}$/.test(verb.name)) return verb;
  throw new MillraceError("config_invalid", `"${verb.name}" is not a verb of bulk actions: use lower case letters and _.`);
}
