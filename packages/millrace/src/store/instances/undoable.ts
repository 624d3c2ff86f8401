import { fragment, type Statement, sql } from "../../contract/sql.ts";
import { selectCutOffSoFar } from "../actions.ts";
import { saysUnrecorded } from "../inbox/caught.ts";
import { canBeTakenBack, hasNoOutcome } from "../inbox/read.ts";

/**
 * The condition that an instance has an effect to undo. The effect is recorded, or it failed and has an undo but no record. In a stopped
 * run, an interrupted step without a later record counts as an effect too.
 */
export function hasToTakeBack(tenantId: string, id: string): Statement {
  return sql`
    (EXISTS (SELECT 1 FROM millrace_inbox WHERE ${canBeTakenBack(id)})
      OR (millrace_instances.undo IS NULL AND ${mayHaveHappened(id)})
      OR (status = 'terminated' AND EXISTS (
        SELECT 1 FROM (${selectCutOffSoFar(tenantId, id)}) cut WHERE ${hasNoOutcome(id, fragment("cut.label"))})))`;
}

/** Returns a row if an ended instance has an effect to undo. */
export function selectToTakeBack(tenantId: string, id: string): Statement {
  return sql`SELECT 1 FROM millrace_instances WHERE id = ${id} AND tenant_id = ${tenantId} AND ${hasToTakeBack(tenantId, id)}`;
}

/** The condition that an effect with an undo has failed without a record. Its failure ended the run, or the code caught the failure. */
function mayHaveHappened(id: string): Statement {
  const ended = fragment("coalesce(nullif(millrace_instances.error->>'step', ''), millrace_instances.error->>'behind')");
  return sql`(
    (millrace_instances.error->>'effect' = 'undoable' AND ${hasNoOutcome(id, ended)})
    OR EXISTS (SELECT 1 FROM json_each(millrace_instances.caught) failure
      WHERE failure.value->>'effect' = 'undoable' AND ${hasNoOutcome(id, fragment("failure.key"))})
    OR EXISTS (SELECT 1 FROM millrace_inbox, json_each(millrace_inbox.caught) failure
      WHERE ${saysUnrecorded(id)} AND failure.value->>'effect' = 'undoable' AND ${hasNoOutcome(id, fragment("failure.key"))}))`;
}
