import { query, type Statement, sql } from "millrace";

/** How long an old secret signs beside the new secret: the default and the maximum. */
export const OVERLAP_SECONDS = 86_400;
export const MAX_OVERLAP_SECONDS = 7 * 86_400;
/** Maximum number of secrets that sign at the same time. Each secret adds a signature to the header of every request. */
export const MAX_SIGNING = 5;

/** One generation of an endpoint's secret. */
export interface SecretGeneration {
  generation: number;
  created_at: number;
  /** The time until which this generation signs; null for the newest generation, which signs until the next rotation. */
  valid_until: number | null;
}

/**
 * Inserts the first secret of an endpoint. This statement follows the endpoint's insert, and inserts no row if the endpoint was not
 * inserted.
 */
export function firstSecret(tenantId: string, endpointId: string): Statement {
  return sql`
    INSERT INTO webhook_secrets (tenant_id, endpoint_id, generation, created_at)
    SELECT tenant_id, endpoint_id, 1, ${sql.now} FROM webhook_versions
    WHERE tenant_id = ${tenantId} AND endpoint_id = ${endpointId} AND version = 1
      AND changes() = 1`;
}

/**
 * The statements that create a generation and end the previous one, to be committed as one batch. Earlier generations keep the times at
 * which they end. The first statement returns the new generation, or no row if the endpoint is deleted or too many secrets sign.
 */
export function rotate(tenantId: string, endpointId: string, overlapSeconds: number): [Statement, Statement] {
  return [
    sql`
      INSERT INTO webhook_secrets (tenant_id, endpoint_id, generation, created_at)
      SELECT tenant_id, endpoint_id, max(generation) + 1, ${sql.now} FROM webhook_secrets
      WHERE tenant_id = ${tenantId} AND endpoint_id = ${endpointId}
        AND EXISTS (SELECT 1 FROM webhook_versions v
          WHERE v.tenant_id = webhook_secrets.tenant_id AND v.endpoint_id = webhook_secrets.endpoint_id
          AND v.replaced_at IS NULL AND v.state <> 'deleted')
      GROUP BY tenant_id, endpoint_id HAVING sum(valid_until IS NULL OR valid_until > ${sql.now}) < ${MAX_SIGNING}
      RETURNING generation`,
    sql`
      UPDATE webhook_secrets SET valid_until = ${sql.now} + ${overlapSeconds * 1000}
      WHERE tenant_id = ${tenantId} AND endpoint_id = ${endpointId} AND valid_until IS NULL
        AND generation < (SELECT max(generation) FROM webhook_secrets s WHERE s.tenant_id = ${tenantId} AND s.endpoint_id = ${endpointId})`,
  ];
}

/** Ends all secrets of a deleted endpoint. The statement has no effect if another change of the endpoint came before the deletion. */
export function endSecrets(tenantId: string, endpointId: string): Statement {
  return sql`
    UPDATE webhook_secrets SET valid_until = ${sql.now}
    WHERE tenant_id = ${tenantId} AND endpoint_id = ${endpointId} AND (valid_until IS NULL OR valid_until > ${sql.now})
      AND EXISTS (SELECT 1 FROM webhook_versions v
        WHERE v.tenant_id = ${tenantId} AND v.endpoint_id = ${endpointId} AND v.replaced_at IS NULL AND v.state = 'deleted')`;
}

/** Ends one generation of a secret. The newest generation is never ended. */
export function endGeneration(tenantId: string, endpointId: string, generation: number): Statement {
  return sql`
    UPDATE webhook_secrets SET valid_until = ${sql.now}
    WHERE tenant_id = ${tenantId} AND endpoint_id = ${endpointId} AND generation = ${generation} AND valid_until > ${sql.now}`;
}

/** Reads the generations of an endpoint's secret that sign now, newest first. */
export function signingSecrets(db: D1Database, tenantId: string, endpointId: string): Promise<SecretGeneration[]> {
  return query<SecretGeneration>(
    db,
    sql`
      SELECT generation, created_at, valid_until FROM webhook_secrets
      WHERE tenant_id = ${tenantId} AND endpoint_id = ${endpointId} AND (valid_until IS NULL OR valid_until > ${sql.now})
      ORDER BY generation DESC`,
  );
}
