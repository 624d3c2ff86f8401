import { fragment, type Statement, sql } from "../../contract/sql.ts";
import { selectCutOffSoFar } from "../actions.ts";
import { saysUnrecorded } from "../inbox/caught.ts";
import { canBeTakenBack, hasNoOutcome } from "../inbox/read.ts";

/**
 * The condition that an instance has an effect to undo: an effect with a record, or a failed effect without a record, but with an undo. In
 * a stopped run, a step that an operator's action cut off counts too, if it has no later record.
 */
export function hasToTakeBack(tenantId: string, id: string): Statement {
  return sql`
    (EXISTS (SELECT 1 FROM millrace_inbox WHERE ${canBeTakenBack(id)})
      OR (millrace_instances.undo IS NULL AND ${mayHaveHappened(id)})
      OR (status = 'terminated' AND EXISTS (
        SELECT 1 FROM (${selectCutOffSoFar(tenantId, id)}) cut WHERE ${hasNoOutcome(id, fragment("cut.label"))})))`;
}

/** An effect with an undo has failed without a record: it ended the run, or its failure was caught by the code. */
function mayHaveHappened(id: string): Statement {
  const ended = fragment("coalesce(nullif(millrace_instances.error->>'step', ''), millrace_instances.error->>'behind')");
  return sql`(
    (millrace_instances.error->>'effect' = 'undoable' AND ${hasNoOutcome(id, ended)})
    OR EXISTS (SELECT 1 FROM json_each(millrace_instances.caught) failure
      WHERE failure.value->>'effect' = 'undoable' AND ${hasNoOutcome(id, fragment("failure.key"))})
    OR EXISTS (SELECT 1 FROM millrace_inbox, json_each(millrace_inbox.caught) failure
      WHERE ${saysUnrecorded(id)} AND failure.value->>'effect' = 'undoable' AND ${hasNoOutcome(id, fragment("failure.key"))}))`;
}
