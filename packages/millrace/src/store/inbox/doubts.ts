import type { EntryKey } from "../../contract/ids.ts";
import { fragment, now, type Statement, sql } from "../../contract/sql.ts";
import { wasApplied } from "../actions.ts";
import { RETRYABLE, RUNS_NO_MORE } from "../instances/status.ts";
import { DOUBTED } from "./classes.ts";
import { type Attempt, isEntry } from "./entry.ts";
import { SKIPPED } from "./outcome.ts";

/**
 * The last attempt at a `once` effect hangs, and nobody waits for it: what comes of it is unknown. Its token stays, so that it may still
 * say so itself, before a person does.
 */
export function doubtHanging(key: Omit<EntryKey, "generation">, error: string): Statement {
  return sql`
    UPDATE millrace_inbox SET state = 'in_doubt', error = ${error}, updated_at = ${now}
    WHERE instance_id = ${key.instanceId} AND step = ${key.step} AND item = ${key.item} AND class IN ${DOUBTED} AND state = 'claimed'`;
}

/** Puts an entry back that the platform remembers in doubt, and that is gone. Not of an instance that was removed, and over none. */
export function putDoubtBack(attempt: Attempt, input: string | null, error: string): Statement {
  const { key, position, after, caught, class: its, token, undoable } = attempt;
  return sql`
    INSERT INTO millrace_inbox (instance_id, step, item, generation, position, after, caught, class, state, epoch, token, input, error,
      undoable,
      updated_at)
    SELECT id, ${key.step}, ${key.item}, ${key.generation}, ${position}, ${after}, ${caught}, ${its}, 'in_doubt', 1, ${token}, ${input},
      ${error}, ${undoable ? 1 : 0}, ${now}
    FROM millrace_instances WHERE id = ${key.instanceId}
    ON CONFLICT DO NOTHING`;
}

/**
 * The next run waits for a person where a doubt is left: from now on the attempt that hangs cannot say so itself any more, because nobody
 * would tell that run. Behind the statement that carries the action out.
 */
export function leaveDoubts(instanceId: string, actionId: string): Statement {
  return sql`
    UPDATE millrace_inbox SET epoch = epoch + 1
    WHERE instance_id = ${instanceId} AND state = 'in_doubt' AND ${wasApplied(actionId)}`;
}

/** What a person says of an effect in doubt, or of one whose output could not be kept. */
type DoubtAnswer = "confirm" | "reject" | "retry_anyway";

/**
 * Moves the entry out of doubt. The epoch grows, so that an attempt which wakes up late is refused. A confirmed one is recorded by its
 * step's next attempt, together with the rows and messages that belong to it; where those were written with what a person had said before,
 * they stay. A step that was skipped stays one. Of one that is known to have happened nobody says that it did not; what it answered stays
 * known, also where it is done again. `provided` says what must be so beside that.
 */
export function settleDoubt(
  key: EntryKey,
  verb: DoubtAnswer,
  { output, outputRef }: { output: string | null; outputRef: string | null },
  provided: Statement = sql`true`,
): Statement {
  const state = verb === "confirm" ? "confirmed" : verb === "reject" ? "failed" : "superseded";
  return sql`
    UPDATE millrace_inbox SET state = iif(${WRITTEN_AS_GIVEN}, 'done', ${state}), output = ${output}, output_ref = ${outputRef},
      error = iif(${HAPPENED}, error, NULL), epoch = epoch + 1, repeats = iif(${verb} = 'reject', 0, repeats),
      token = iif(token = ${SKIPPED}, token, 'operator'), lease_until = NULL, updated_at = ${now}
    WHERE ${isEntry(key)} AND ${provided}
      AND ((state = 'in_doubt' AND (${verb} <> 'retry_anyway' OR NOT ${RUNS_NEVER_AGAIN}) AND (${verb} <> 'reject' OR NOT ${HAPPENED}))
        OR (${verb} = 'confirm' AND (${OUTPUT_LOST} OR (${GIVEN} AND ${WAITS_FOR_RETRY}))))`;
}

/** The condition that an effect is known to have happened, because its own attempt said so (see `Failure`). */
const HAPPENED = fragment("(error->>'answered' IS NOT NULL)");
const OUTPUT_LOST = fragment("(state = 'done' AND output IS NULL AND output_ref IS NULL AND error IS NOT NULL)");
const WRITTEN_AS_GIVEN = fragment(`(state = 'done' AND token IN ('operator', '${SKIPPED}'))`);
const GIVEN = fragment(`(state = 'confirmed' OR ${WRITTEN_AS_GIVEN.fragment})`);
/** While its instance runs, the first answer holds: a second click changes nothing. */
const WAITS_FOR_RETRY = fragment(
  `EXISTS (SELECT 1 FROM millrace_instances
    WHERE millrace_instances.id = millrace_inbox.instance_id AND millrace_instances.status IN ${RETRYABLE.fragment})`,
);

/**
 * The condition that nobody would do an effect again, by the position of its entry and its instance, `i`: no operator's retry can begin
 * another run, or it is being undone.
 */
export const nobodyRuns = (position: string) =>
  fragment(`(i.status IN ${RUNS_NO_MORE.fragment} OR (i.undo IS NOT NULL AND ${position} >= 0))`);

const RUNS_NEVER_AGAIN = fragment(`EXISTS (SELECT 1 FROM millrace_instances i
    WHERE i.id = millrace_inbox.instance_id AND ${nobodyRuns("millrace_inbox.position").fragment})`);
