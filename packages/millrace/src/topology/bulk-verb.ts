import type * as z from "zod";
import type { EngineEnv } from "../contract/bindings.ts";
import type { Issue } from "../contract/errors.ts";
import type { Statement } from "../contract/sql.ts";
import type { Operator } from "../store/actions.ts";

/** What a verb is given when it acts, or looks. */
export interface BulkCallOf<Known> {
  readonly env: EngineEnv;
  readonly catalog: Known;
  /** Whose things, and who acts. Passed on as it is, so that the action bears the name that the bulk action gave it (`actionIdOf`). */
  readonly by: Operator;
  /** Why, for the audit. */
  readonly reason: string;
  /** False leaves standing what was done: said of a verb that `takesBack`, and true of any other. */
  readonly undo: boolean;
  /** The bulk action's id; a dry run has none. */
  readonly bulkId: string | null;
}

/** What came of an action on one thing: it changed something, or there was nothing to do any more, and why. */
export interface Acted {
  readonly changed: boolean;
  readonly why?: string;
}

/** What has come of a thing since: it is still under way, or it has failed again. A thing that is not answered is well. */
export type Outcome = "open" | { readonly code: string; readonly why: string };

/** A thing that was acted upon. */
export interface ActedOn {
  readonly id: string;
  /** By the database's clock, in milliseconds. */
  readonly at: number;
}

/** Things of one kind among those that a bulk action is about, and what follows for each of these. */
export interface BulkPart {
  readonly what: string;
  readonly count: number;
  readonly follows: string;
}

/** What can be done to many things at once: which things they are, how its filter finds them, and what is done to one. */
export interface BulkVerbOf<Filter, Known> {
  /** As `verb` says it, such as `retry`. */
  readonly name: string;
  /** What it acts upon, such as `instances`. */
  readonly noun: string;
  /**
   * What a person should know before it begins, such as that it is final: a dry run says it. `things` selects the `id` of all that it would
   * be about. Default nothing.
   */
  readonly follows?: string | ((call: BulkCallOf<Known>, things: Statement) => Promise<string | null>);
  /** What kinds of things there are among them, and what follows for these, for a dry run. `things` as `follows` has it. Default: nobody counts. */
  readonly parts?: (call: BulkCallOf<Known>, things: Statement) => Promise<readonly BulkPart[]>;
  /** True for a verb that takes back what was done, unless it is asked for with `undo: false`. Default false. */
  readonly takesBack?: boolean;
  /** The scope that a token needs. Default `operate`. */
  readonly scope?: string;
  /** Reads a filter from outside. */
  readonly filter: z.ZodType<Filter>;
  /** A statement that selects as `id` and `at` the things of the operator's tenant that a filter means; the oldest are acted upon first. */
  readonly members: (by: Operator, filter: Filter) => Statement;
  /**
   * How a thing stands in the list, and so as the `id` that `members` selects, where the database could not write its name; and back.
   * Default: by its name.
   */
  readonly listing?: { readonly write: (id: string) => string; readonly read: (listed: string) => string };
  /** Names in a filter that stand for nothing: asked where nothing matches, and then it is refused with them. Default: nobody looks. */
  readonly unknown?: (call: BulkCallOf<Known>, filter: Filter) => Promise<Issue[]>;
  /**
   * Acts on one thing, with its audit row, once under the action's name. Errors are its refusal, with their code and words; `unavailable`
   * lets the chunk come back.
   */
  readonly act: (call: BulkCallOf<Known>, id: string) => Promise<Acted>;
  /** Why it would be refused now, for a dry run; null when it would be done. Default: nobody looks. */
  readonly refusal?: (call: BulkCallOf<Known>, id: string) => Promise<string | null>;
  /** Asked of one that was refused: true where there is nothing to do any more, because somebody else was faster. Default false. */
  readonly isSpent?: (call: BulkCallOf<Known>, id: string) => Promise<boolean>;
  /** What has come of things since they were acted upon, those that are open or have failed. Default: all of them are well at once. */
  readonly outcomes?: (call: BulkCallOf<Known>, acted: readonly ActedOn[]) => Promise<ReadonlyMap<string, Outcome>>;
}
