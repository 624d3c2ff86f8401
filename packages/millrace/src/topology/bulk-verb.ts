import type * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import type { Issue } from "../contract/errors.ts";
import type { Statement } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";

/** The arguments of a bulk action's functions. */
export interface BulkCallOf<Known> {
  readonly env: EngineEnv;
  readonly catalog: Known;
  /** The tenant and the operator who acts. Pass this value on unchanged: it carries the action's id (`actionIdOf`). */
  readonly by: Operator;
  /** The operator's reason, for the audit. */
  readonly reason: string;
  /**
   * False when the bulk action keeps completed effects. The value can be false only for a verb with `takesBack`; it is true for all other
   * verbs.
   */
  readonly undo: boolean;
  /** The id of the bulk action; null for a dry run. */
  readonly bulkId: string | null;
}

/** The result of the action for one item: changed, or unchanged because nothing was left to do, with the reason. */
export interface Acted {
  readonly changed: boolean;
  readonly why?: string;
}

/**
 * The present state of an item after the action: `open` means in progress, an object is a new failure. An item without an entry has no
 * problem.
 */
export type Outcome = "open" | { readonly code: string; readonly why: string };

/** An item that a bulk action has processed. */
export interface ActedOn {
  readonly id: string;
  /** The time of the action by the database's clock, in milliseconds. */
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
  /** The value of `verb` in the API, such as `retry`. */
  readonly name: string;
  /** The kind of item, such as `instances`. */
  readonly noun: string;
  /**
   * The consequence that a dry run shows before the action starts, for example that the action is final. `things` is a statement that
   * selects the `id` of all affected items. Default: none.
   */
  readonly follows?: string | ((call: BulkCallOf<Known>, things: Statement) => Promise<string | null>);
  /**
   * Groups of the affected items with the consequence for each, for a dry run. `things` has the same meaning as in `follows`. By default a
   * dry run shows no groups.
   */
  readonly parts?: (call: BulkCallOf<Known>, things: Statement) => Promise<readonly BulkPart[]>;
  /** True for a verb that undoes completed effects, unless the request has `undo: false`. Default false. */
  readonly takesBack?: boolean;
  /** The scope that a token needs for this bulk action. Default `operate`. */
  readonly scope?: string;
  /** The schema of a request's filter, which selects items. */
  readonly filter: z.ZodType<Filter>;
  /** Selects the `id` and `at` of the tenant's items that match a filter. The oldest items are processed first. */
  readonly members: (by: Operator, filter: Filter) => Statement;
  /**
   * Converts an id to the form that `members` selects and the list stores, and back. The conversion is needed where SQL cannot compute the
   * id. By default the id is stored unchanged.
   */
  readonly listing?: { readonly write: (id: string) => string; readonly read: (listed: string) => string };
  /**
   * Finds unknown names in a filter. The function is called when the filter matches no item; the request is refused with these issues. By
   * default names are not checked.
   */
  readonly unknown?: (call: BulkCallOf<Known>, filter: Filter) => Promise<Issue[]>;
  /**
   * Acts on one item and writes its audit row, once per action id. If the function throws, the item is refused with its code and message;
   * an error with `unavailable` retries the whole chunk of items.
   */
  readonly act: (call: BulkCallOf<Known>, id: string) => Promise<Acted>;
  /** For a dry run: the reason why the item would be refused now; null if it would not. By default a dry run does not check items. */
  readonly refusal?: (call: BulkCallOf<Known>, id: string) => Promise<string | null>;
  /** After a refusal: true if nothing is left to do, for example because another operator was faster. Default false. */
  readonly isSpent?: (call: BulkCallOf<Known>, id: string) => Promise<boolean>;
  /** The items that are still in progress or have failed again. Default: none. */
  readonly outcomes?: (call: BulkCallOf<Known>, acted: readonly ActedOn[]) => Promise<ReadonlyMap<string, Outcome>>;
}
