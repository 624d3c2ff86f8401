import { type Statement, sql } from "../contract/sql.ts";

/**
 * Opens the audit for these statements, to be committed in one batch: otherwise triggers refuse to remove or change rows of `actions`. The
 * callers are the retention, the erasure of a user's data, and the deletion of a tenant.
 */
export function auditOpened(statements: readonly Statement[]): Statement[] {
  return [sql`INSERT INTO millrace_audit_opened (id) VALUES (1)`, ...statements, sql`DELETE FROM millrace_audit_opened`];
}
