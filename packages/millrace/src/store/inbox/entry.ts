import type { EntryKey } from "../../contract/ids.ts";
import { fragment, type Statement, sql } from "../../contract/sql.ts";
import type { RecordedClass } from "./classes.ts";

/**
 * new → claimed         an attempt of a class that claims takes the key
 * new → done            recorded by an attempt that needs no claim, because its class takes none
 * new → failed          the generation behind one that was taken back, free to be taken; or a commit that was given up
 * new → in_doubt        its entry is gone (deleted, or not restored), and the platform remembers the doubt
 * claimed → claimed     taken over once the lease has run out
 * claimed → done        the effect's outcome was recorded by the claim's holder
 * claimed → failed      the upstream said for certain that nothing happened; or a person has skipped it, or has an undo leave it alone
 * claimed → in_doubt    a `once` effect whose outcome nobody knows, or that happened and whose rows are refused; a claim that ran out, of a
 *                       step whose class a deployment has changed since; only an operator ends the doubt
 * failed → claimed      the next attempt takes it; or a person had skipped it when it was claimed, and the output that was given is refused
 * failed → in_doubt     an undo had left it alone, and its upstream cannot be asked, because a deployment has changed the class
 * failed → done         the next attempt records it, of a class that takes no claim; or what a person gave who has skipped it
 * in_doubt → failed     rejected by a person: it did not happen
 * in_doubt → confirmed  a person gave its output
 * in_doubt → done       the attempt that hung said itself how it ended, before a person did
 * in_doubt → superseded retried anyway by a person, as the next generation
 * confirmed → done      an attempt has recorded the given output with the step's rows and messages
 * confirmed → in_doubt  its step cannot use the output that was given, or its rows are refused
 * done → confirmed      its output could not be kept, and a person gave it
 * done → superseded     taken back; the next generation is free to be claimed
 */
export type EntryState = "claimed" | "failed" | "in_doubt" | "confirmed" | "done" | "superseded";

/** One inbox row, as the guard reads it. */
export interface Entry {
  step: string;
  item: string;
  generation: number;
  /** Grows with each outcome that the instance's code recorded; below zero for what the engine records in taking them back. */
  position: number;
  /** What had settled before its step was begun, and which of that had failed with what error: see `packBefore`. */
  after: string | null;
  caught: string | null;
  state: EntryState;
  /** The fencing number: grows with every takeover, never shrinks. */
  epoch: number;
  /** Whose attempt wrote the row last. */
  token: string;
  /** 1 when an earlier attempt may have reached the upstream. */
  repeats: number;
  /** When its attempt began, where a pass began that itself; null for one of the platform's. */
  began_at: number | null;
  /** When that ended, where the pass made it to its end; null for one that the platform took over. */
  ended_at: number | null;
  /** 1 when the code that recorded it has a way to take it back. */
  undoable: number;
  /** Milliseconds the present claim still holds, by the database's clock; 0 or less when it has run out. */
  lease_left_ms: number;
  output: string | null;
  output_ref: string | null;
  error: string | null;
}

/**
 * An entry as a look at all of an instance's shows it: without its output, since those of all entries may be more than one answer can
 * carry.
 */
export interface Seen extends Omit<Entry, "output"> {
  /** By the database's clock. */
  updated_at: number;
  /** A small output of a step that a pass took itself, "" for none; null where it has to be asked for. */
  small: string | null;
}

/** Whose attempt it is that asks. */
export interface Attempt {
  key: EntryKey;
  position: number;
  after: string | null;
  caught: string | null;
  /** Set while the pass that asks has not looked into the inbox: it writes only if no other pass has. */
  aloneAs: string | null;
  class: RecordedClass;
  token: string;
  epoch: number;
  /** True for the first write of a pass, and for the first after a wait: it also says that the instance runs. */
  saysItRuns: boolean;
  /** True where that is the first write of a first pass: the instance's row says that nothing has begun yet. */
  begins?: boolean;
  /** When it began, where the pass has begun it itself. */
  beganAt?: number | null;
  /** True where the pass has made it to its end: the platform knows nothing of it. */
  inPass?: boolean;
  /** True when the step has an undo: shown by the undo's dry run. */
  undoable?: boolean;
}

/** The condition that an undo was to leave an effect alone which an attempt had claimed: it may have happened (see `leaveAlone`). */
export const IS_LEFT_ALONE = fragment(
  "(millrace_inbox.state = 'failed' AND millrace_inbox.token = 'operator' AND millrace_inbox.repeats = 1)",
);

/** The same condition on an entry in memory. */
export function isLeftAlone({ state, token, repeats }: Pick<Entry, "state" | "token" | "repeats">): boolean {
  return state === "failed" && token === "operator" && repeats === 1;
}

/** The name on the platform of an entry's step: `labelOf`, of a row of `inbox`. */
export const ENTRY_LABEL = fragment("iif(item = '', step, step || ' [' || item || ']')");

/** The condition that a row of `inbox` is this entry. */
export function isEntry({ instanceId, step, item, generation }: EntryKey): Statement {
  return sql`instance_id = ${instanceId} AND step = ${step} AND item = ${item} AND generation = ${generation}`;
}
