import { fragment, type Statement, sql } from "../../contract/sql.ts";
import { selectCutOffSoFar } from "../actions.ts";
import { canBeTakenBack, hasNoOutcome } from "../inbox/read.ts";

/**
 * The condition of an instance's row that an undo of it has something to take back: an effect on record, or, of a run that was stopped, a
 * step that a person's act has cut off, and of which nothing is on record since.
 */
export function hasToTakeBack(tenantId: string, id: string): Statement {
  return sql`
    (EXISTS (SELECT 1 FROM inbox WHERE ${canBeTakenBack(id)})
      OR (status = 'terminated' AND EXISTS (
        SELECT 1 FROM (${selectCutOffSoFar(tenantId, id)}) cut WHERE ${hasNoOutcome(id, fragment("cut.label"))})))`;
}
