import { type Statement, sql } from "../../contract/sql.ts";

/**
 * SQL expression that merges `more` into the state which earlier runs of an instance recorded (JSON, see `LeftBehind`): a step's new value
 * replaces its old one. The merge is one statement, because another replay may update another step at the same time.
 */
export function leftWith(more: Statement): Statement {
  const forgotten = sql`(SELECT json_group_object(key, NULL) FROM json_each(${more}))`;
  return sql`json_patch(json_patch(coalesce(caught, '{}'), ${forgotten}), ${more})`;
}
