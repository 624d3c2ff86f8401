import { type Statement, sql } from "../../contract/sql.ts";

/** The condition that an operator has paused an instance, so that none of its steps starts. */
export function isPaused(id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_instances WHERE id = ${id} AND status = 'paused')`;
}
