import type { Statement } from "../contract/sql.ts";
import type { Row } from "../store/d1/retry.ts";
import type { Attempt, Entry } from "../store/inbox/entry.ts";
import type { Standing } from "../store/instances/run.ts";
import type { Outgoing } from "../store/outbox.ts";

/** What one attempt wants written, all of it or nothing. */
export interface Outcome {
  output: string | null;
  outputRef: string | null;
  /** The app's own rows. */
  statements: readonly Statement[];
  messages: readonly Outgoing[];
  /** Set when the effect happened but its output cannot be kept. */
  error: string | null;
}

/** An entry, and whether the attempt that asked holds it. */
export interface Answer {
  mine: boolean;
  /** Null when the inbox holds none, because the attempt's pass is not alone. */
  entry: Entry | null;
  /** How the write found the instance: what a person has asked for since is heard at no round trip of its own. */
  standing?: Standing | undefined;
  /** How many rows the app's own statements wrote, as D1 bills them; only where this write committed them. */
  appRows?: number;
}

export function standingOf(instanceId: string, rows: Row[] | undefined): Standing | undefined {
  return rows?.find(({ id }) => id === instanceId) as Standing | undefined;
}

/** The same, as the write of an outcome has found it. */
export function standingSaid(instanceId: string, rows: Row[] | undefined): Standing | undefined {
  const said = rows?.find(({ id }) => id === instanceId)?.standing;
  return typeof said === "string" ? JSON.parse(said) : undefined;
}

export function onlyEntry(rows: Row[] | undefined): Entry | null {
  return (rows?.[0] ?? null) as Entry | null;
}

/** What an attempt hears of an outcome that is there already: its own, after an ambiguous commit, or another's. */
export function recorded(attempt: Attempt, entry: Entry | null): Answer | undefined {
  return entry?.state === "done" ? { mine: entry.token === attempt.token, entry } : undefined;
}

export function doneEntry(
  { key, position, after, caught, epoch, token, undoable, beganAt = null, inPass }: Attempt,
  outcome: Outcome,
): Entry {
  return {
    step: key.step,
    item: key.item,
    generation: key.generation,
    position,
    after,
    caught,
    state: "done",
    epoch,
    token,
    repeats: 0,
    undoable: undoable ? 1 : 0,
    began_at: beganAt,
    ended_at: inPass ? Date.now() : null,
    lease_left_ms: 0,
    output: outcome.output,
    output_ref: outcome.outputRef,
    error: outcome.error,
  };
}
