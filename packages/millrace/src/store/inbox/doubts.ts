import type { EntryKey } from "../../contract/ids.ts";
import { fragment, now, type Statement, sql } from "../../contract/sql.ts";
import { wasApplied } from "../actions.ts";
import { RETRYABLE, RUNS_NO_MORE } from "../instances/status.ts";
import { DOUBTED } from "./classes.ts";
import { type Attempt, isEntry } from "./entry.ts";
import { SKIPPED } from "./outcome.ts";

/**
 * Marks the outcome of a `once` effect as unknown, because its last attempt hangs and the run does not wait for this attempt. The entry
 * keeps the attempt's token, so that the attempt can still record its outcome before an operator answers.
 */
export function doubtHanging(key: Omit<EntryKey, "generation">, error: string): Statement {
  return sql`
    UPDATE millrace_inbox SET state = 'in_doubt', error = ${error}, updated_at = ${now}
    WHERE instance_id = ${key.instanceId} AND step = ${key.step} AND item = ${key.item} AND class IN ${DOUBTED} AND state = 'claimed'`;
}

/**
 * Restores a missing entry whose unknown outcome (`in_doubt`) the platform has recorded. The statement skips a removed instance and never
 * overwrites an existing entry.
 */
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
 * Refuses outcomes of hanging attempts at the start of the next run, because a recorded outcome would not wake that run. The run waits for
 * an operator at each unknown outcome. The statement must follow the statement that applies the operator's action.
 */
export function leaveDoubts(instanceId: string, actionId: string): Statement {
  return sql`
    UPDATE millrace_inbox SET epoch = epoch + 1
    WHERE instance_id = ${instanceId} AND state = 'in_doubt' AND ${wasApplied(actionId)}`;
}

/** As `leaveDoubts`, for the children that an action on their parent cancels. The statement must follow the audit of these cancels. */
export function leaveDoubtsOfChildren({ id, tenantId }: { id: string; tenantId: string }, actionId: string): Statement {
  return sql`
    UPDATE millrace_inbox SET epoch = epoch + 1
    WHERE state = 'in_doubt' AND instance_id IN (
      SELECT c.id FROM millrace_instances c CROSS JOIN millrace_actions a ON a.instance_id = c.id
      WHERE c.tenant_id = ${tenantId} AND c.parent = ${id} AND a.applied_at IS NULL AND a.detail->>'derived_from' = ${actionId})`;
}

/** An operator's answer about an unknown outcome, or about an effect with a lost output. */
type DoubtAnswer = "confirm" | "reject" | "retry_anyway";

/**
 * Resolves an unknown outcome. The epoch is incremented, so that a late attempt is refused. After a confirmation, the step's next attempt
 * records the entry together with the step's rows and messages. Rows and messages that the step wrote after an earlier answer remain. A
 * step that an operator has skipped remains skipped. An effect that is known to have happened cannot be rejected. Its response remains
 * recorded, even if an operator repeats the effect. `provided` is a further condition for the update of the entry.
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

/** The condition that an effect is known to have happened, because its attempt recorded the upstream's response (see `Failure`). */
const HAPPENED = fragment("(error->>'answered' IS NOT NULL)");
const OUTPUT_LOST = fragment("(state = 'done' AND output IS NULL AND output_ref IS NULL AND error IS NOT NULL)");
const WRITTEN_AS_GIVEN = fragment(`(state = 'done' AND token IN ('operator', '${SKIPPED}'))`);
const GIVEN = fragment(`(state = 'confirmed' OR ${WRITTEN_AS_GIVEN.fragment})`);
/**
 * The condition that an instance can be retried, so that an operator may change an earlier answer. While the instance runs, a second answer
 * changes nothing.
 */
const WAITS_FOR_RETRY = fragment(
  `EXISTS (SELECT 1 FROM millrace_instances
    WHERE millrace_instances.id = millrace_inbox.instance_id AND millrace_instances.status IN ${RETRYABLE.fragment})`,
);

/**
 * The condition that an effect cannot be repeated. Either no retry can start another run of the effect's instance `i`, or an undo has
 * started and the effect belongs to the instance's code.
 */
export const nobodyRuns = (position: string) =>
  fragment(`(i.status IN ${RUNS_NO_MORE.fragment} OR (i.undo IS NOT NULL AND ${position} >= 0))`);

const RUNS_NEVER_AGAIN = fragment(`EXISTS (SELECT 1 FROM millrace_instances i
    WHERE i.id = millrace_inbox.instance_id AND ${nobodyRuns("millrace_inbox.position").fragment})`);
