import { type Statement, sql } from "../contract/sql.ts";

/**
 * These statements with the audit open for them, to be committed as one: outside of that, triggers refuse whatever removes a row of
 * `actions` or changes what it says. For rows as old as the audit is kept, a person who is forgotten, and a tenant that is deleted.
 */
export function auditOpened(statements: readonly Statement[]): Statement[] {
  return [sql`INSERT INTO millrace_audit_opened (id) VALUES (1)`, ...statements, sql`DELETE FROM millrace_audit_opened`];
}
