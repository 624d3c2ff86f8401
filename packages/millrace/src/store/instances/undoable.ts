import { fragment, type Statement, sql } from "../../contract/sql.ts";
import { selectCutOffSoFar } from "../actions.ts";
import { saysUnrecorded } from "../inbox/caught.ts";
import { canBeTakenBack, hasNoOutcome } from "../inbox/read.ts";

/**
 * The condition of an instance's row that an undo of it has something to take back: an effect on record; one that failed without a record,
 * and that its code can take back; or, of a run that was stopped, a step that a person's act has cut off, and of which nothing is on record
 * since.
 */
export function hasToTakeBack(tenantId: string, id: string): Statement {
  return sql`
    (EXISTS (SELECT 1 FROM millrace_inbox WHERE ${canBeTakenBack(id)})
      OR (millrace_instances.undo IS NULL AND ${mayHaveHappened(id)})
      OR (status = 'terminated' AND EXISTS (
        SELECT 1 FROM (${selectCutOffSoFar(tenantId, id)}) cut WHERE ${hasNoOutcome(id, fragment("cut.label"))})))`;
}

/** An effect that its code can take back has failed without a record: the run ended with that, or its code caught it. */
function mayHaveHappened(id: string): Statement {
  const ended = fragment("coalesce(nullif(millrace_instances.error->>'step', ''), millrace_instances.error->>'behind')");
  return sql`(
    (millrace_instances.error->>'effect' = 'undoable' AND ${hasNoOutcome(id, ended)})
    OR EXISTS (SELECT 1 FROM json_each(millrace_instances.caught) failure
      WHERE failure.value->>'effect' = 'undoable' AND ${hasNoOutcome(id, fragment("failure.key"))})
    OR EXISTS (SELECT 1 FROM millrace_inbox, json_each(millrace_inbox.caught) failure
      WHERE ${saysUnrecorded(id)} AND failure.value->>'effect' = 'undoable' AND ${hasNoOutcome(id, fragment("failure.key"))}))`;
}
