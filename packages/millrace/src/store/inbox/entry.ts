import type { EntryKey } from "../../contract/ids.ts";
import { fragment, type Statement, sql } from "../../contract/sql.ts";
import type { RecordedClass } from "./classes.ts";

/**
 * new → claimed          an attempt of a class with claims takes the key
 * new → done             recorded by an attempt of a class without claims
 * new → failed           the generation after an undone one, free to be claimed; or a commit that timed out
 * new → in_doubt         its entry is missing (deleted, or not restored), and the platform has recorded the unknown outcome
 * claimed → claimed      taken over after the lease has expired
 * claimed → done         the holder recorded the effect's outcome
 * claimed → failed       the upstream confirmed that nothing happened; or an operator skipped it, or excluded it from an undo
 * claimed → in_doubt     a `once` effect with an unknown outcome, or one that happened but whose rows were refused; an expired claim of a
 *                        step whose class has changed since; only an operator resolves it
 * failed → claimed       claimed by the next attempt; or an operator skipped it while claimed, and the given output was refused
 * failed → in_doubt      an undo had excluded it, and its upstream cannot be queried, because the class has changed
 * failed → done          recorded by the next attempt of a class without claims; or the output given for a skipped step
 * in_doubt → failed      rejected by an operator: it did not happen
 * in_doubt → confirmed   an operator gave its output
 * in_doubt → done        the hanging attempt recorded its outcome before an operator did
 * in_doubt → superseded  repeated by an operator, as the next generation
 * confirmed → done       an attempt recorded the given output with the step's rows and messages
 * confirmed → in_doubt   the step cannot use the given output, or its rows were refused
 * done → confirmed       its output could not be stored, and an operator gave it
 * done → superseded      undone; the next generation is free to be claimed
 */
export type EntryState = "claimed" | "failed" | "in_doubt" | "confirmed" | "done" | "superseded";

/** A row of the inbox: the record of a step's effect. */
export interface Entry {
  step: string;
  item: string;
  generation: number;
  /** The position increases with each outcome that the instance's code recorded; it is negative for outcomes of an undo. */
  position: number;
  /** The steps that had settled before this one started, and the failures among them: see `packBefore`. */
  after: string | null;
  caught: string | null;
  state: EntryState;
  /** The fencing number: incremented by every takeover, never decremented. */
  epoch: number;
  /** The token of the attempt that wrote the row last. */
  token: string;
  /** Flag (0 or 1): an earlier attempt may have reached the upstream. */
  repeats: number;
  /** The start of an inline attempt; null for a step of the platform. */
  began_at: number | null;
  /** The end of an inline attempt; null if the platform took it over. */
  ended_at: number | null;
  /** Flag (0 or 1): the step has an undo. */
  undoable: number;
  /** Remaining milliseconds of the present claim, by the database's clock; 0 or less when the claim has expired. */
  lease_left_ms: number;
  output: string | null;
  output_ref: string | null;
  error: string | null;
}

/** An entry without its output, for queries of many entries: all outputs together may exceed the size of one result. */
export interface Seen extends Omit<Entry, "output"> {
  /** Set by the database's clock. */
  updated_at: number;
  /** A small output of an inline step, "" for none; null when it must be queried separately. */
  small: string | null;
}

/** An attempt of a step, which reads or writes inbox entries. */
export interface Attempt {
  key: EntryKey;
  position: number;
  after: string | null;
  caught: string | null;
  /** Set until the replay has read the inbox: before that, the replay may write only if no other replay has written. */
  aloneAs: string | null;
  class: RecordedClass;
  token: string;
  epoch: number;
  /** True for a replay's first write, and for its first write after a wait: such a write also marks the instance as running. */
  saysItRuns: boolean;
  /** True for the first write of an instance: the instance's row must show that no step has started yet. */
  begins?: boolean;
  /** The start time of an inline attempt. */
  beganAt?: number | null;
  /** True for an inline attempt that ended inline: the platform has no step for it. */
  inPass?: boolean;
  /** True when the step has an undo, which the dry run of an undo shows. */
  undoable?: boolean;
}

/** The condition that an operator excluded a claimed effect from an undo: it may have happened (see `leaveAlone`). */
export const IS_LEFT_ALONE = fragment(
  "(millrace_inbox.state = 'failed' AND millrace_inbox.token = 'operator' AND millrace_inbox.repeats = 1)",
);

/** True for an entry in memory that an operator excluded from an undo, like `IS_LEFT_ALONE`. */
export function isLeftAlone({ state, token, repeats }: Pick<Entry, "state" | "token" | "repeats">): boolean {
  return state === "failed" && token === "operator" && repeats === 1;
}

/** The platform's name of an entry's step, as an SQL expression: the same as `labelOf` in code. */
export const ENTRY_LABEL = fragment("iif(item = '', step, step || ' [' || item || ']')");

/** The condition that a row of `inbox` is the entry with this key. */
export function isEntry({ instanceId, step, item, generation }: EntryKey): Statement {
  return sql`instance_id = ${instanceId} AND step = ${step} AND item = ${item} AND generation = ${generation}`;
}
