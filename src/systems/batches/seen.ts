import { query, type Statement, sql } from "millrace";

interface Owner {
  tenantId: string;
  batchId: string;
}

/** Stores the keys of rows that exist both in the file and in the database. */
export function insertKeys({ tenantId, batchId }: Owner, keys: readonly string[]): Statement {
  return sql`
    INSERT INTO batch_keys (tenant_id, batch_id, key)
    SELECT ${tenantId}, ${batchId}, value FROM json_each(${JSON.stringify(keys)}) WHERE true
    ON CONFLICT DO NOTHING`;
}

/** Returns the keys among the given keys that are stored for the batch. */
export async function selectKeys(db: D1Database, { tenantId, batchId }: Owner, keys: readonly string[]): Promise<Set<string>> {
  const found = await query<{ key: string }>(
    db,
    sql`
      SELECT s.key FROM json_each(${JSON.stringify(keys)}) k
      CROSS JOIN batch_keys s ON s.tenant_id = ${tenantId} AND s.batch_id = ${batchId} AND s.key = k.value`,
  );
  return new Set(found.map(({ key }) => key));
}

/**
 * Deletes the keys of rows that have been checked. If a batch stops early, or if rows are deleted meanwhile, some keys remain. The
 * remaining keys are deleted with the batch.
 */
export function forgetKeys({ tenantId, batchId }: Owner, keys: readonly string[]): Statement {
  return sql`
    DELETE FROM batch_keys WHERE tenant_id = ${tenantId} AND batch_id = ${batchId} AND key IN ${sql.among(keys)}`;
}

/**
 * Deletes a limited number of the keys that a batch has stored. A batch can have millions of keys, and one statement for all keys would
 * block D1. The statement returns a row for each deleted key.
 */
export function forgetSomeKeys({ tenantId, batchId }: Owner, limit: number): Statement {
  return sql`
    DELETE FROM batch_keys WHERE tenant_id = ${tenantId} AND batch_id = ${batchId}
      AND key IN (SELECT key FROM batch_keys WHERE tenant_id = ${tenantId} AND batch_id = ${batchId} LIMIT ${limit})
    RETURNING 1`;
}
