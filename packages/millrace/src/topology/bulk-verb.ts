import type * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import type { Issue } from "../contract/errors.ts";
import type { Statement } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";

/** The arguments of a verb's functions. */
export interface BulkCallOf<Known> {
  readonly env: EngineEnv;
  readonly catalog: Known;
  /** The tenant and the operator. Pass the value on unchanged: it carries the action's id (`actionIdOf`). */
  readonly by: Operator;
  /** The reason, for the audit. */
  readonly reason: string;
  /** False: keep completed effects. Only for a verb with `takesBack`; true for all others. */
  readonly undo: boolean;
  /** Null for a dry run. */
  readonly bulkId: string | null;
}

/** The result for one item: changed, or unchanged because there was nothing left to do, with the reason. */
export interface Acted {
  readonly changed: boolean;
  readonly why?: string;
}

/** The present state of an item: `open` is still in progress, an object is a new failure. An item without an entry is fine. */
export type Outcome = "open" | { readonly code: string; readonly why: string };

/** An item that the verb was applied to. */
export interface ActedOn {
  readonly id: string;
  /** Database time, in milliseconds. */
  readonly at: number;
}

/** One group of items, and the consequence of the action for these items. */
export interface BulkPart {
  readonly what: string;
  readonly count: number;
  readonly follows: string;
}

/** A verb of bulk actions: which items its filter selects, and the action on one item. */
export interface BulkVerbOf<Filter, Known> {
  /** The API's `verb`, such as `retry`. */
  readonly name: string;
  /** The kind of item, such as `instances`. */
  readonly noun: string;
  /**
   * The consequence that a dry run shows before the action starts, such as that it is final. The statement `things` selects the `id` of all
   * affected items. Default: none.
   */
  readonly follows?: string | ((call: BulkCallOf<Known>, things: Statement) => Promise<string | null>);
  /**
   * Groups of the affected items with the consequence for each, for a dry run. `things` has the same meaning as in `follows`. Default: no
   * groups.
   */
  readonly parts?: (call: BulkCallOf<Known>, things: Statement) => Promise<readonly BulkPart[]>;
  /** True for a verb that undoes completed effects, unless the request has `undo: false`. Default false. */
  readonly takesBack?: boolean;
  /** The scope that a token needs. Default `operate`. */
  readonly scope?: string;
  /** Validates the filter of a request. */
  readonly filter: z.ZodType<Filter>;
  /** Selects the `id` and `at` of the tenant's items that match a filter. The oldest items are processed first. */
  readonly members: (by: Operator, filter: Filter) => Statement;
  /**
   * Converts an id to the form that `members` selects and the list stores, and back. The conversion is needed where SQL cannot compute the
   * id. Default: the id.
   */
  readonly listing?: { readonly write: (id: string) => string; readonly read: (listed: string) => string };
  /** Unknown names in a filter. Called when nothing matches; the request is refused with these issues. Default: no check. */
  readonly unknown?: (call: BulkCallOf<Known>, filter: Filter) => Promise<Issue[]>;
  /**
   * Acts on one item, with its audit row, once per action id. A thrown error is the item's refusal, with its code and message;
   * `unavailable` retries the whole chunk.
   */
  readonly act: (call: BulkCallOf<Known>, id: string) => Promise<Acted>;
  /** For a dry run: the reason why the item would be refused now; null if it would not. Default: no check. */
  readonly refusal?: (call: BulkCallOf<Known>, id: string) => Promise<string | null>;
  /** After a refusal: true if nothing is left to do, for example because another operator was faster. Default false. */
  readonly isSpent?: (call: BulkCallOf<Known>, id: string) => Promise<boolean>;
  /** The items that are still in progress or have failed again. Default: none. */
  readonly outcomes?: (call: BulkCallOf<Known>, acted: readonly ActedOn[]) => Promise<ReadonlyMap<string, Outcome>>;
}
