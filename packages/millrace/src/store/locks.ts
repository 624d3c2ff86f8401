import { type Statement, sql } from "../contract/sql.ts";

/** A lock's tenant and name. The tenant is empty for the deployment's own locks. */
export interface LockName {
  tenantId: string;
  name: string;
}

/** Adds a lock to the list of locks that are held for a long time. */
export function listLock({ tenantId, name }: LockName, token: number): Statement {
  return sql`
    INSERT INTO millrace_locks (tenant_id, name, token) VALUES (${tenantId}, ${name}, ${token})
    ON CONFLICT (tenant_id, name) DO UPDATE SET token = excluded.token WHERE excluded.token > millrace_locks.token`;
}

/** Removes a lock from the list of locks that are held for a long time, unless the list contains a later holder of the lock. */
export function unlistLock({ tenantId, name }: LockName, token: number): Statement {
  return sql`DELETE FROM millrace_locks WHERE tenant_id = ${tenantId} AND name = ${name} AND token <= ${token}`;
}

export function selectLocks(tenantId: string, after: string, limit: number): Statement {
  return sql`SELECT name, token FROM millrace_locks WHERE tenant_id = ${tenantId} AND name > ${after} ORDER BY name LIMIT ${limit}`;
}
