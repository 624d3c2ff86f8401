import { among, query, type Statement, sql } from "millrace";

interface Owner {
  tenantId: string;
  batchId: string;
}

/** Stores the keys of rows that both the file and the database have. */
export function insertKeys({ tenantId, batchId }: Owner, keys: readonly string[]): Statement {
  return sql`
    INSERT INTO batch_keys (tenant_id, batch_id, key)
    SELECT ${tenantId}, ${batchId}, value FROM json_each(${JSON.stringify(keys)}) WHERE true
    ON CONFLICT DO NOTHING`;
}

/** Returns those of the given keys that are stored. */
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
 * Deletes the keys of rows that have been checked. Remaining keys, of a batch that stops early or of deleted rows, are deleted with the
 * batch.
 */
export function forgetKeys({ tenantId, batchId }: Owner, keys: readonly string[]): Statement {
  return sql`
    DELETE FROM batch_keys WHERE tenant_id = ${tenantId} AND batch_id = ${batchId} AND key IN ${among(keys)}`;
}

/**
 * Deletes some of the keys that a batch has stored. A batch can have millions of keys, and one large statement would block D1. The
 * statement returns a row for each deleted key.
 */
export function forgetSomeKeys({ tenantId, batchId }: Owner, limit: number): Statement {
  return sql`
    DELETE FROM batch_keys WHERE tenant_id = ${tenantId} AND batch_id = ${batchId}
      AND key IN (SELECT key FROM batch_keys WHERE tenant_id = ${tenantId} AND batch_id = ${batchId} LIMIT ${limit})
    RETURNING 1`;
}
