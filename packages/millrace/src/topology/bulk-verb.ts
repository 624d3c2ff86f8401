import type * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import type { Issue } from "../contract/errors.ts";
import type { Statement } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";

/** Options of a bulk action that only some verbs read. */
export interface BulkOptions {
  /** If false, completed effects remain. Default: true. */
  readonly undo?: boolean | undefined;
  /** The new due time of delayed commands. */
  readonly run_at?: string | undefined;
}

/** The arguments of a bulk action's functions. */
export interface BulkCallOf<Known> {
  readonly env: EngineEnv;
  readonly catalog: Known;
  /**
   * The acting operator and the operator's tenant. Pass the operator on unchanged, because the value contains the action's id
   * (`actionIdOf`).
   */
  readonly by: Operator;
  /** The operator's reason, for the audit. */
  readonly reason: string;
  /** The options of the request. Only a verb that `needs` an option gets this option. */
  readonly options: BulkOptions;
  /** The id of the bulk action; null for a dry run. */
  readonly bulkId: string | null;
}

/** The result of the action on an item: whether the item was changed, and why an unchanged item needed no action. */
export interface Acted {
  readonly changed: boolean;
  readonly why?: string;
}

/**
 * The present state of an item after the action. `open` means that the item is in progress, and an object is a new failure. For an item
 * without a problem, no state is returned.
 */
export type Outcome = "open" | { readonly code: string; readonly why: string };

/** An item that a bulk action has processed. */
export interface ActedOn {
  readonly id: string;
  /** The time of the action by the database's clock, in milliseconds. */
  readonly at: number;
}

/** A group of items, and the consequence of the action for the items in this group. */
export interface BulkPart {
  readonly what: string;
  readonly count: number;
  readonly consequence: string;
}

/** A verb of bulk actions, which defines the selection of items and the action on an item. */
export interface BulkVerbOf<Filter, Known> {
  /** The value of `verb` in the API, such as `retry`. */
  readonly name: string;
  /** The kind of item, such as `instances`. */
  readonly noun: string;
  /**
   * The consequence that a dry run shows before the action starts, for example that the action is final. `things` is a statement that
   * selects the `id` of all affected items. By default the dry run shows no consequence.
   */
  readonly consequence?: string | ((call: BulkCallOf<Known>, things: Statement) => Promise<string | null>);
  /**
   * Returns groups of affected items for a dry run, each with the consequence of the action. `things` has the same meaning as in `consequence`.
   * By default a dry run shows no groups.
   */
  readonly parts?: (call: BulkCallOf<Known>, things: Statement) => Promise<readonly BulkPart[]>;
  /** The option of a request that the verb reads. A request with another option is refused. */
  readonly needs?: keyof BulkOptions;
  /** The scope that a token needs for this bulk action. Default `operate`. */
  readonly scope?: string;
  /** The schema of a request's filter, which selects items. */
  readonly filter: z.ZodType<Filter>;
  /** Selects the `id` and `at` of the tenant's items that match a filter. The oldest items are processed first. */
  readonly members: (by: Operator, filter: Filter) => Statement;
  /**
   * Converts an id to the form that `members` selects and the list stores, and converts the stored form back to the id. The conversion is
   * needed if SQL cannot compute the id. By default the id is stored unchanged.
   */
  readonly listing?: { readonly write: (id: string) => string; readonly read: (listed: string) => string };
  /**
   * Finds unknown names in a filter. The function is called if the filter matches no item, and the request is refused with the returned
   * issues. By default names are not checked.
   */
  readonly unknown?: (call: BulkCallOf<Known>, filter: Filter) => Promise<Issue[]>;
  /**
   * Acts on one item and writes the audit row of the action, once per action id. If the function throws an error, the item is refused with
   * the error's code and message. An error with `unavailable` makes the whole chunk of items be retried.
   */
  readonly act: (call: BulkCallOf<Known>, id: string) => Promise<Acted>;
  /**
   * For a dry run, returns the reason why the item would be refused now; null if the item would be accepted. By default a dry run does not
   * check items.
   */
  readonly refusal?: (call: BulkCallOf<Known>, id: string) => Promise<string | null>;
  /**
   * Returns true after a refusal if the item needs no action, for example because another operator has already acted on it. Default: false.
   */
  readonly isSpent?: (call: BulkCallOf<Known>, id: string) => Promise<boolean>;
  /** Returns the items that are still in progress or have failed again, by id. By default no items are returned. */
  readonly outcomes?: (call: BulkCallOf<Known>, acted: readonly ActedOn[]) => Promise<ReadonlyMap<string, Outcome>>;
}
