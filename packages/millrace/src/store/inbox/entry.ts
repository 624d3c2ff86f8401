import type { EntryKey } from "../../contract/ids.ts";
import { fragment, type Statement, sql } from "../../contract/sql.ts";
import type { RecordedClass } from "./classes.ts";

/**
 * new → claimed          an attempt of a class with claims claimed the key
 * new → done             an attempt of a class without claims recorded the outcome
 * new → failed           an undo created the next generation, which can be claimed; or a commit timed out
 * new → in_doubt         the entry was deleted or not restored, and the platform has recorded the unknown outcome
 * claimed → claimed      another attempt took the claim over after its lease had expired
 * claimed → done         the holder recorded the effect's outcome
 * claimed → failed       the upstream confirmed that nothing happened; or an operator skipped the step or excluded it from an undo
 * claimed → in_doubt     the outcome of a `once` effect is unknown, or the effect happened but its rows were refused; or the claim of a
 *                        step expired and the step's class has changed. Only an operator resolves the unknown outcome.
 * failed → claimed       the next attempt claimed the key; or an operator skipped a claimed step, and the given output was refused
 * failed → in_doubt      an operator had excluded the effect from an undo, and the changed class cannot query the upstream
 * failed → done          the next attempt of a class without claims recorded the outcome; or a skipped step got its given output
 * in_doubt → failed      an operator answered that the effect did not happen
 * in_doubt → confirmed   an operator answered with the output of the effect
 * in_doubt → done        the hanging attempt recorded its outcome before an operator did
 * in_doubt → superseded  an operator repeats the effect as the next generation
 * confirmed → done       an attempt recorded the given output with the step's rows and messages
 * confirmed → in_doubt   the step cannot use the given output, or its rows were refused
 * done → confirmed       the effect's output could not be stored, and an operator gave the output
 * done → superseded      the effect was undone, and the next generation can be claimed
 */
export type EntryState = "claimed" | "failed" | "in_doubt" | "confirmed" | "done" | "superseded";

/** A row of the inbox: the record of a step's effect. */
export interface Entry {
  step: string;
  item: string;
  generation: number;
  /** The position increases with each outcome that the instance's code records. The position is negative for outcomes of an undo. */
  position: number;
  /** The steps that had settled before this step started, and their failures (see `packBefore`). */
  after: string | null;
  caught: string | null;
  state: EntryState;
  /** The fencing number, which every takeover increments and nothing decrements. */
  epoch: number;
  /** The token of the attempt that last wrote this row. */
  token: string;
  /** Flag (0 or 1): 1 if an earlier attempt may have reached the upstream. */
  repeats: number;
  /** The start time of an inline attempt; null for a step of the platform. */
  began_at: number | null;
  /** The end time of an inline attempt; null if the attempt became a step of the platform. */
  ended_at: number | null;
  /** Flag (0 or 1): 1 if the step has an undo. */
  undoable: number;
  /** Remaining milliseconds of the present claim, by the database's clock; 0 or less when the claim has expired. */
  lease_left_ms: number;
  output: string | null;
  output_ref: string | null;
  error: string | null;
}

/** An entry without its output, for queries of many entries, because all outputs together may exceed the maximum size of a result. */
export interface Seen extends Omit<Entry, "output"> {
  /** Set by the database's clock. */
  updated_at: number;
  /** A small output of an inline step. An empty string means no output, and null means that the output must be queried separately. */
  small: string | null;
}

/** An attempt of a step, which reads or writes inbox entries. */
export interface Attempt {
  key: EntryKey;
  position: number;
  after: string | null;
  caught: string | null;
  /** The replay that makes the attempt: the first 8 characters of the tokens of its attempts. */
  replay: string;
  /** The token of an output from an operator that the replay has recorded; absent without such a record. */
  given?: string | undefined;
  /**
   * The database's time at which the replay read the inbox; 0 before the first read. The write is refused if another replay has written
   * since. Null for an undo, which follows the order of the log.
   */
  readAt: number | null;
  class: RecordedClass;
  token: string;
  epoch: number;
  /** True for a replay's first write, and for a replay's first write after a wait. Such a write also marks the instance as running. */
  saysItRuns: boolean;
  /** The version of the workflow that the replay executes; absent for the present version of the row. */
  version?: number;
  /** True for the first write of an instance. The write requires that the instance's row shows no started step. */
  begins?: boolean;
  /** The start time of an inline attempt. */
  beganAt?: number | null;
  /** True for an attempt that started and ended inline, so that the platform has no step for the attempt. */
  endedInline?: boolean;
  /** True if the step has an undo. The dry run of an undo shows the steps that have an undo. */
  undoable?: boolean;
}

/** The condition that an operator has excluded a claimed effect, which may have happened, from an undo (see `leaveAlone`). */
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
