import type { EntryKey } from "../../contract/ids.ts";
import { type Fragment, fragment, now, type RowStatement, type Statement, sql } from "../../contract/sql.ts";
import { isRunOver, wasApplied } from "../actions.ts";
import { standingAt } from "../instances/fate.ts";
import type { Outgoing } from "../outbox.ts";
import { type Attempt, IS_LEFT_ALONE, isEntry } from "./entry.ts";

/**
 * Marks a commit as failed because the platform has timed it out and the run continues without it. A late write with the commit's epoch is
 * refused. A recorded commit remains. A claim also remains, because a claim belongs to another effect class.
 */
export function fenceCommit({ key, position, after, caught, token, undoable }: Attempt): Statement {
  return sql`
    INSERT INTO millrace_inbox (instance_id, step, item, generation, position, after, caught, class, state, epoch, token, undoable,
      updated_at)
    VALUES (${key.instanceId}, ${key.step}, ${key.item}, ${key.generation}, ${position}, ${after}, ${caught}, 'commit', 'failed', 2,
      ${token}, ${undoable ? 1 : 0}, ${now})
    ON CONFLICT (instance_id, step, item, generation) DO UPDATE SET epoch = millrace_inbox.epoch + 1, updated_at = excluded.updated_at
    WHERE millrace_inbox.state NOT IN ('done', 'claimed')`;
}

/**
 * Records the outcome of a step's attempt. This statement is the only fence, for steps of every class. An inbox entry with a new key is
 * inserted. A claimed, confirmed or doubted entry becomes done only for the holder of its token and epoch. A skipped entry becomes done
 * only for the attempt that records the skip. A free entry becomes done for the first attempt that writes. In every other case `state` is
 * set to NULL, which the NOT NULL constraint of the column refuses. Then the whole batch, including the app's statements and the messages,
 * is rolled back. A claimed entry is never free for another attempt, because a deployment may have changed the effect class.
 *
 * The same refusal stops a replay if another replay has written since the replay read the inbox. The refusal also stops a
 * dead process's commit that arrives after the start of an undo, because the undo would miss the commit. No commit follows the end of a
 * complete run. A repeat of an ambiguous commit is safe, because the repeat is refused and the row shows the attempt's own token. The
 * statement returns the status of the instance at the time of the write.
 */
export function recordOutcome(attempt: Attempt, outcome: Recorded): RowStatement {
  const messages = outcome.messages.length > 0 ? copies(outcome.messages) : null;
  const { key, position, after, caught, replay, given, readAt, class: effectClass, epoch, token } = attempt;
  const { output, outputRef, error } = outcome;
  return {
    text: RECORD,
    row: {
      ...key,
      position,
      after,
      caught,
      replay,
      given,
      readAt,
      class: effectClass,
      epoch,
      token,
      output,
      outputRef,
      messages,
      error,
      undoable: attempt.undoable ? 1 : 0,
      beganAt: attempt.beganAt ?? null,
      endedInline: attempt.endedInline ? 1 : 0,
    },
  };
}

/**
 * Maximum count of characters in the copies of messages that an entry stores for operators. If the messages exceed the limit, the entry
 * stores only envelopes up to the limit, and the count of omitted messages by type (`omitted`). The outbox contains every message in full.
 */
const MAX_COPIED_CHARACTERS = 250_000;

function copies(messages: readonly Outgoing[]): string {
  const bodies = messages.map(({ body }) => body);
  const small = bodies.reduce((sum, body) => sum + body.length, 0) <= MAX_COPIED_CHARACTERS;
  if (small) return `[${bodies.join(",")}]`;
  const envelopes = bodies.map(withoutPayload);
  const most = Math.max(...envelopes.map(({ length }) => length));
  const kept = Math.floor(MAX_COPIED_CHARACTERS / most);
  return `[${[...envelopes.slice(0, kept), ...leftOut(envelopes.slice(kept))].join(",")}]`;
}

function leftOut(envelopes: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const envelope of envelopes) {
    const { message_type } = JSON.parse(envelope) as { message_type: string };
    counts.set(message_type, (counts.get(message_type) ?? 0) + 1);
  }
  return [...counts].map(([message_type, omitted]) => JSON.stringify({ message_type, omitted }));
}

function withoutPayload(body: string): string {
  const { payload_inline: _, ...envelope } = JSON.parse(body) as Record<string, unknown>;
  return JSON.stringify(envelope);
}

/** An attempt's outcome as JSON, in the columns of its inbox entry. */
interface Recorded {
  output: string | null;
  outputRef: string | null;
  messages: readonly Outgoing[];
  error: string | null;
}

/** The token in the entry of a skipped step. The step did not run, and an operator gave its output. */
export const SKIPPED = "skipped";

/**
 * The condition that another replay of an instance has written to the inbox since the replay of `row` has read the inbox. `instanceId` and
 * `row` are SQL expressions.
 */
export function isOvertaken(instanceId: string, row: string): Fragment {
  return fragment(`EXISTS (SELECT 1 FROM millrace_inbox other WHERE other.instance_id = ${instanceId}
        AND other.updated_at >= ${row}->>'readAt'
        AND substr(other.token, 1, 8) NOT IN (${row}->>'replay', coalesce(${row}->>'given', '')))`);
}

const RECORD = `
  WITH given AS MATERIALIZED (SELECT value FROM json_each(?1))
  INSERT INTO millrace_inbox (instance_id, step, item, generation, position, after, caught, class, state, epoch, token, output, output_ref,
    messages, error, undoable, began_at, ended_at, updated_at)
  SELECT value->>'instanceId', value->>'step', value->>'item', value->>'generation', value->>'position', value->>'after',
    value->>'caught', value->>'class',
    iif(${isOvertaken("value->>'instanceId'", "value").fragment}
      OR (value->>'class' = 'commit' AND value->>'position' >= 0 AND ${isRunOver("value->>'instanceId'").fragment}), NULL, 'done'),
    value->>'epoch', value->>'token', value->>'output', value->>'outputRef', value->>'messages', value->>'error',
    value->>'undoable', value->>'beganAt', iif(value->>'endedInline', ${now.fragment}, NULL), ${now.fragment}
  FROM given WHERE true
  ON CONFLICT (instance_id, step, item, generation) DO UPDATE SET
    state = CASE
      WHEN millrace_inbox.state IN ('claimed', 'confirmed', 'in_doubt') AND millrace_inbox.token = excluded.token
        AND millrace_inbox.epoch = excluded.epoch THEN 'done'
      WHEN millrace_inbox.state = 'failed' AND millrace_inbox.token = '${SKIPPED}' AND excluded.token = millrace_inbox.token
        AND excluded.epoch = millrace_inbox.epoch THEN 'done'
      WHEN excluded.class IN ('commit', 'keyed', 'natural') AND (excluded.class <> 'commit' OR millrace_inbox.epoch <= excluded.epoch)
        AND millrace_inbox.state = 'failed' AND NOT ${IS_LEFT_ALONE.fragment}
      THEN 'done' END,
    class = excluded.class, position = excluded.position, after = excluded.after, caught = excluded.caught,
    token = excluded.token, output = excluded.output, output_ref = excluded.output_ref, messages = excluded.messages,
    error = excluded.error, undoable = excluded.undoable, began_at = excluded.began_at,
    ended_at = excluded.ended_at, lease_until = NULL, updated_at = excluded.updated_at
  RETURNING instance_id AS id, ${standingAt("instance_id").fragment} AS standing`;

/** The position of the undo of the step at position 0. The positions of an undo's steps are less than those of the code's steps. */
export const FIRST_UNDO_POSITION = -2;

/**
 * Records that an operator skips a failed step. The step's next attempt records the given output without running, or refuses the output
 * (`refuseSkip`). The entry keeps its former state in case of a refusal. The statement must follow the statement that applies the
 * operator's action. `takesBack` is set if the skipped step belongs to an undo.
 */
export function skipEntry(
  { instanceId, step, item, generation }: EntryKey,
  { output, outputRef }: { output: string | null; outputRef: string | null },
  actionId: string,
  takesBack?: EntryKey,
): Statement {
  return sql`
    INSERT INTO millrace_inbox (instance_id, step, item, generation, position, class, state, epoch, token, output, output_ref, updated_at,
      skipped_over)
    SELECT ${instanceId}, ${step}, ${item}, ${generation}, ${takesBack ? positionBack(takesBack) : nextPosition(instanceId)},
      'natural', 'failed', 1, ${SKIPPED}, ${output}, ${outputRef}, ${now}, '{}'
    WHERE ${wasApplied(actionId)}
    ON CONFLICT (instance_id, step, item, generation) DO UPDATE
      SET state = 'failed', token = excluded.token, epoch = millrace_inbox.epoch + 1,
      output = excluded.output, output_ref = excluded.output_ref, lease_until = NULL, updated_at = excluded.updated_at,
      skipped_over = iif(millrace_inbox.token = excluded.token, millrace_inbox.skipped_over, json_object(
        'state', millrace_inbox.state, 'token', millrace_inbox.token, 'lease_until', millrace_inbox.lease_until, 'updated_at',
          millrace_inbox.updated_at))
    WHERE millrace_inbox.state = 'failed' OR millrace_inbox.state = 'claimed'`;
}

const nextPosition = (instanceId: string) =>
  sql`(SELECT coalesce(max(position), -1) + 1 FROM millrace_inbox WHERE instance_id = ${instanceId} AND position >= 0)`;

const positionBack = (key: EntryKey) => sql`(SELECT ${FIRST_UNDO_POSITION} - position FROM millrace_inbox WHERE ${isEntry(key)})`;

/**
 * Records that an operator excludes an effect with an unknown outcome from an undo. The undo neither queries nor undoes an excluded effect.
 * A later run tries the effect again with the same key, and if possible first queries the upstream. The statement must follow the statement
 * that applies the operator's action.
 */
export function leaveAlone({ instanceId, step, item, generation }: EntryKey, actionId: string): Statement {
  return sql`
    INSERT INTO millrace_inbox (instance_id, step, item, generation, position, class, state, epoch, token, updated_at)
    SELECT ${instanceId}, ${step}, ${item}, ${generation}, ${nextPosition(instanceId)}, 'natural', 'failed', 2, 'operator', ${now}
    WHERE ${wasApplied(actionId)}
    ON CONFLICT (instance_id, step, item, generation) DO UPDATE
      SET state = 'failed', token = excluded.token, epoch = millrace_inbox.epoch + 1,
      repeats = max(millrace_inbox.repeats, millrace_inbox.state = 'claimed'), lease_until = NULL, updated_at = excluded.updated_at
    WHERE millrace_inbox.state = 'failed' OR millrace_inbox.state = 'claimed'`;
}

/** The token in the entry of an effect that was undone. */
export const UNDONE = "undone";

/** Marks an effect as undone. The effect's output remains readable, but no run uses it any more. */
export function markUndone(key: EntryKey): Statement {
  return sql`
    UPDATE millrace_inbox SET state = 'superseded', token = ${UNDONE}, epoch = epoch + 1, updated_at = ${now}
    WHERE ${isEntry(key)} AND state = 'done'`;
}

/** Inserts the next generation of an effect, which has a new key and can be claimed. */
export function nextGeneration(key: EntryKey): Statement {
  return sql`
    INSERT INTO millrace_inbox (instance_id, step, item, generation, position, class, state, epoch, token, input, undoable, updated_at)
    SELECT instance_id, step, item, generation + 1, position, class, 'failed', 1, 'operator', input, undoable, ${now}
    FROM millrace_inbox WHERE ${isEntry(key)} AND state = 'superseded'
    ON CONFLICT DO NOTHING`;
}

/** The condition on `e` that an entry was never used. Such an entry is a new generation that no attempt has claimed. */
export const IS_FREE = fragment("(e.state = 'failed' AND e.token = 'operator' AND e.epoch = 1)");

/** True for the error with which `claim` and `recordOutcome` refuse a write. */
export function isFenceRefusal(error: unknown): boolean {
  return error instanceof Error && error.message.includes("NOT NULL constraint failed: millrace_inbox.state");
}
