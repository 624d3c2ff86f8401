import { type Statement, sql } from "../../contract/sql.ts";

/** The condition that a person holds an instance: no step of it begins. */
export function isPaused(id: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_instances WHERE id = ${id} AND status = 'paused')`;
}
