import { type Statement, sql } from "../contract/sql.ts";

/**
 * Opens the audit for these statements, which must be committed in one batch. While the audit is not open, triggers refuse to remove or
 * change rows of `actions`. Retention, the erasure of a user's data, and the deletion of a tenant call this function.
 */
export function auditOpened(statements: readonly Statement[]): Statement[] {
  return [sql`INSERT INTO millrace_audit_opened (id) VALUES (1)`, ...statements, sql`DELETE FROM millrace_audit_opened`];
}
