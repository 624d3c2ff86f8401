import { type Statement, sql } from "../../contract/sql.ts";

/**
 * What an instance's runs have left (see `LeftBehind`, as JSON), with `more` of it: what is said of a step takes the place of what was said
 * of it before, and nothing else is lost. In one statement, because a pass may write of another step at the same moment.
 */
export function leftWith(more: Statement): Statement {
  const forgotten = sql`(SELECT json_group_object(key, NULL) FROM json_each(${more}))`;
  return sql`json_patch(json_patch(coalesce(caught, '{}'), ${forgotten}), ${more})`;
}
