import { type Statement, sql } from "../contract/sql.ts";

/** A limit that a tenant can read. Several tenants may share a limit. */
export interface LimitName {
  tenantId: string;
  name: string;
}

export function listLimit({ tenantId, name }: LimitName): Statement {
  return sql`INSERT INTO millrace_limits (tenant_id, name) VALUES (${tenantId}, ${name}) ON CONFLICT DO NOTHING`;
}

export function unlistLimit({ tenantId, name }: LimitName): Statement {
  return sql`DELETE FROM millrace_limits WHERE tenant_id = ${tenantId} AND name = ${name}`;
}

export function selectLimits(tenantId: string, after: string, limit: number): Statement {
  return sql`SELECT name FROM millrace_limits WHERE tenant_id = ${tenantId} AND name > ${after} ORDER BY name LIMIT ${limit}`;
}
