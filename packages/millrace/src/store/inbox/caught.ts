import { fragment, type Statement, sql } from "../../contract/sql.ts";
import { wasApplied } from "../actions.ts";
import { ENTRY_LABEL } from "./entry.ts";
import { UNDONE } from "./outcome.ts";

/** SQL expressions of the label and the generation of the entry on which another entry depends (see `packBefore`). */
const BASE_LABEL = fragment("iif(json_type(told.after, '$[0]') = 'array', told.after->>'$[0][0]', told.after->>'$[0]')");
const BASE_GENERATION = fragment("iif(json_type(told.after, '$[0]') = 'array', told.after->>'$[0][1]', 1)");

/**
 * Selects steps that may have happened because the code caught the failure of another step. The failure is recorded in the step's own
 * entry, or in an entry on which the step's entry depends. Each entry is read only once, because entries with outputs are large.
 */
export function wentOnFrom(instanceId: string, label: string | null): Statement {
  return sql`
    WITH RECURSIVE entries AS MATERIALIZED (
      SELECT step, ${ENTRY_LABEL} AS label, generation, position, state, token, after, caught
      FROM millrace_inbox WHERE instance_id = ${instanceId} AND ${label} IS NOT NULL
    ), told(step, position, after, caught) AS (
      SELECT step, position, after, caught FROM entries
      WHERE state IN ('claimed', 'in_doubt', 'confirmed', 'done') OR (state = 'superseded' AND token <> ${UNDONE})
      UNION
      SELECT told.step, told.position, base.after, base.caught FROM told
      JOIN entries base ON base.label = ${BASE_LABEL} AND base.generation = ${BASE_GENERATION}
    )
    SELECT told.step FROM told, json_each(told.caught) failure
    WHERE failure.key = ${label} AND failure.value->>'forgotten' IS NULL
    ORDER BY told.position LIMIT 1`;
}

/** Selects the steps with failures that the code must get again in a replay, because later steps depend on these failures. */
export function selectCaught(instanceId: string): Statement {
  return sql`
    SELECT DISTINCT failure.key AS label FROM millrace_inbox, json_each(millrace_inbox.caught) failure
    WHERE instance_id = ${instanceId} AND failure.value->>'forgotten' IS NULL`;
}

/** Selects the steps with a caught failure and an unrecorded effect, each with the known facts about this effect. */
export function selectUnrecorded(instanceId: string): Statement {
  return sql`
    SELECT DISTINCT failure.key AS label, failure.value->>'effect' AS effect FROM millrace_inbox, json_each(millrace_inbox.caught) failure
    WHERE ${saysUnrecorded(instanceId)}`;
}

/**
 * The condition that a step's effect has no record because the code caught the step's failure. `failure` is the caught failure, joined with
 * the entries that record the failure.
 */
export function saysUnrecorded(instanceId: string): Statement {
  return sql`
    millrace_inbox.instance_id = ${instanceId} AND failure.value->>'effect' IS NOT NULL AND failure.value->>'forgotten' IS NULL
      AND (millrace_inbox.state IN ('claimed', 'in_doubt', 'confirmed', 'done') OR (millrace_inbox.state = 'superseded'
        AND millrace_inbox.token <> ${UNDONE}))`;
}

/**
 * After an operator's retry of a failed step, replays no longer return the step's failure, unless the step fails in the same way again. The
 * statement must follow the statement that applies the operator's action.
 */
export function forgetFailure(instanceId: string, label: string, actionId: string): Statement {
  return sql`
    UPDATE millrace_inbox SET caught = ${caughtWith(label, sql`json_set(failure.value, '$.forgotten', json('true'))`)}
    WHERE instance_id = ${instanceId} AND EXISTS (SELECT 1 FROM json_each(millrace_inbox.caught) WHERE key = ${label})
      AND ${wasApplied(actionId)}`;
}

/** Makes replays return the earlier failure of a retried step again, because the step has failed in the same way. */
export function rememberFailure(instanceId: string, label: string): Statement {
  return sql`
    UPDATE millrace_inbox SET caught = ${caughtWith(label, sql`json_remove(failure.value, '$.forgotten')`)}
    WHERE instance_id = ${instanceId}
      AND EXISTS (SELECT 1 FROM json_each(millrace_inbox.caught) WHERE key = ${label} AND value->>'forgotten' IS NOT NULL)`;
}

/** The recorded failures of an inbox entry, with a new value for one failure. */
function caughtWith(label: string, value: Statement): Statement {
  return sql`(
    SELECT json_group_object(failure.key, json(iif(failure.key = ${label}, ${value}, failure.value)))
    FROM json_each(millrace_inbox.caught) failure)`;
}
