import { type Statement, sql } from "../contract/sql.ts";

/** A lock by whose it is and its name. The deployment's own have an empty tenant. */
export interface LockName {
  tenantId: string;
  name: string;
}

/** Lists a lock that is held for long. */
export function listLock({ tenantId, name }: LockName, token: number): Statement {
  return sql`
    INSERT INTO millrace_locks (tenant_id, name, token) VALUES (${tenantId}, ${name}, ${token})
    ON CONFLICT (tenant_id, name) DO UPDATE SET token = excluded.token WHERE excluded.token > millrace_locks.token`;
}

/** Takes it from the list, unless a later holder stands there. */
export function unlistLock({ tenantId, name }: LockName, token: number): Statement {
  return sql`DELETE FROM millrace_locks WHERE tenant_id = ${tenantId} AND name = ${name} AND token <= ${token}`;
}

/** A tenant's locks that are listed, by name. */
export function selectLocks(tenantId: string, after: string, limit: number): Statement {
  return sql`SELECT name, token FROM millrace_locks WHERE tenant_id = ${tenantId} AND name > ${after} ORDER BY name LIMIT ${limit}`;
}
