import type { Statement } from "../contract/sql.ts";
import type { Row } from "../store/d1/retry.ts";
import type { Attempt, Entry } from "../store/inbox/entry.ts";
import type { Standing } from "../store/instances/run.ts";
import type { Outgoing } from "../store/outbox.ts";

/** The result of one attempt. All writes of an outcome are committed together. */
export interface Outcome {
  output: string | null;
  outputRef: string | null;
  statements: readonly Statement[];
  messages: readonly Outgoing[];
  /** Tags to add to the instance. */
  tags?: readonly string[];
  /** The error of an effect that happened and has an output that cannot be stored; null for other effects. */
  error: string | null;
}

/** An inbox entry, and whether the entry belongs to the requesting attempt. */
export interface Answer {
  mine: boolean;
  /**
   * The inbox entry. Null if the inbox contains no entry because another replay has written. Also null for an outcome that this call has
   * committed, because the caller has the outcome.
   */
  entry: Entry | null;
  /** The instance's status at the write. From this status the replay learns an operator's decision without another round trip. */
  standing?: Standing | undefined;
  /** Number of rows that the app's own statements wrote, as D1 bills rows. Undefined unless this write committed the app's statements. */
  appRows?: number;
}

export function standingOf(instanceId: string, rows: Row[] | undefined): Standing | undefined {
  return rows?.find(({ id }) => id === instanceId) as Standing | undefined;
}

/** The instance's status, from the result of the statement that records an outcome. */
export function standingSaid(instanceId: string, rows: Row[] | undefined): Standing | undefined {
  const said = rows?.find(({ id }) => id === instanceId)?.standing;
  return typeof said === "string" ? JSON.parse(said) : undefined;
}

export function onlyEntry(rows: Row[] | undefined): Entry | null {
  return (rows?.[0] ?? null) as Entry | null;
}

/**
 * The answer if an outcome is already recorded. The outcome is from this attempt, after a commit with a lost answer, or from another
 * attempt.
 */
export function recorded(attempt: Attempt, entry: Entry | null): Answer | undefined {
  return entry?.state === "done" ? { mine: entry.token === attempt.token, entry } : undefined;
}
