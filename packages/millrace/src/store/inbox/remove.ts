import { type Statement, sql } from "../../contract/sql.ts";

export function removeEntries(whose: Statement): Statement {
  return sql`DELETE FROM millrace_inbox WHERE ${whose}`;
}
