import { type Statement, sql } from "../../contract/sql.ts";

/**
 * SQL expression that merges `more` into the state that earlier runs of an instance recorded (JSON, see `LeftBehind`). A step's new value
 * replaces the step's old value. The merge is a single statement, because two replays may update different steps at the same time.
 */
export function leftWith(more: Statement): Statement {
  const forgotten = sql`(SELECT json_group_object(key, NULL) FROM json_each(${more}))`;
  return sql`json_patch(json_patch(coalesce(caught, '{}'), ${forgotten}), ${more})`;
}
