import { type Statement, sql } from "../../contract/sql.ts";
import { ENTRY_LABEL } from "../inbox/entry.ts";

/**
 * Selects the label of each step of an instance that has an entry, a wait or an approval. A row without a label has the instance's
 * acceptance time.
 */
export function selectKnownSteps(id: string): Statement {
  return sql`
    SELECT accepted_at, NULL AS label FROM millrace_instances WHERE id = ${id}
    UNION ALL SELECT NULL, ${ENTRY_LABEL} FROM millrace_inbox WHERE instance_id = ${id}
    UNION ALL SELECT NULL, name FROM millrace_waits WHERE instance_id = ${id}
    UNION ALL SELECT NULL, step FROM millrace_approvals WHERE instance_id = ${id}`;
}

/** Records the steps of a run that a restore of the database has lost. The replays of later runs use the record of the lost steps. */
export function noteLost(id: string, labels: readonly string[]): Statement {
  return sql`
    UPDATE millrace_instances SET lost = (
      SELECT json_group_array(value) FROM (
        SELECT value FROM json_each(coalesce(lost, '[]')) UNION SELECT value FROM json_each(${JSON.stringify(labels)})))
    WHERE id = ${id}`;
}
