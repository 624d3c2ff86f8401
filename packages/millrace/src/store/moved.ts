import { type Statement, sql } from "../contract/sql.ts";

/** Marks a tenant as not living in the cell of a database. `filledBy`: the move that writes the tenant's rows into the database. */
export function noteMoved(tenantId: string, home: number, filledBy: number | null): Statement {
  return sql`
    INSERT INTO millrace_moved (tenant_id, cell, filled_by) VALUES (${tenantId}, ${home}, ${filledBy})
    ON CONFLICT (tenant_id) DO UPDATE SET cell = excluded.cell, filled_by = excluded.filled_by`;
}

/** Marks a tenant as living in the cell of a database that a move has filled, or that the tenant has never left. */
export function forgetMoved(tenantId: string, filledBy: number | null): Statement {
  return sql`DELETE FROM millrace_moved WHERE tenant_id = ${tenantId} AND filled_by IS ${filledBy}`;
}

/** Ends the filling of a database, in which the tenant does not live. */
export function endFilling(tenantId: string, filledBy: number): Statement {
  return sql`UPDATE millrace_moved SET filled_by = NULL WHERE tenant_id = ${tenantId} AND filled_by = ${filledBy}`;
}

/** The cells to which tenants have moved. */
export const selectHomes: Statement = sql`SELECT DISTINCT cell FROM millrace_moved`;

/** The SQL condition that a tenant has left the cell of a database (`filledBy` null), or that this move fills the database. */
export function isMarked(tenant: string, filledBy: number | null): string {
  return `EXISTS (SELECT 1 FROM millrace_moved m WHERE m.tenant_id = ${tenant} AND m.filled_by IS ${filledBy ?? "NULL"})`;
}
