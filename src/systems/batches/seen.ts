import { among, query, type Statement, sql } from "millrace";

interface Owner {
  tenantId: string;
  batchId: string;
}

/** Remembers keys that the file and we both have. */
export function insertKeys({ tenantId, batchId }: Owner, keys: readonly string[]): Statement {
  return sql`
    INSERT INTO batch_keys (tenant_id, batch_id, key)
    SELECT ${tenantId}, ${batchId}, value FROM json_each(${JSON.stringify(keys)}) WHERE true
    ON CONFLICT DO NOTHING`;
}

/** Which of these keys are remembered. */
export async function selectKeys(db: D1Database, { tenantId, batchId }: Owner, keys: readonly string[]): Promise<Set<string>> {
  const found = await query<{ key: string }>(
    db,
    sql`
      SELECT s.key FROM json_each(${JSON.stringify(keys)}) k
      CROSS JOIN batch_keys s ON s.tenant_id = ${tenantId} AND s.batch_id = ${batchId} AND s.key = k.value`,
  );
  return new Set(found.map(({ key }) => key));
}

/** Forgets keys that have been looked for. Those of a batch that stops half way, and of rows that went meanwhile, go with the batch. */
export function forgetKeys({ tenantId, batchId }: Owner, keys: readonly string[]): Statement {
  return sql`
    DELETE FROM batch_keys WHERE tenant_id = ${tenantId} AND batch_id = ${batchId} AND key IN ${among(keys)}`;
}

/** Forgets some of what a batch remembers, which can be millions: D1 does nothing else meanwhile. Answers a row for each. */
export function forgetSomeKeys({ tenantId, batchId }: Owner, limit: number): Statement {
  return sql`
    DELETE FROM batch_keys WHERE tenant_id = ${tenantId} AND batch_id = ${batchId}
      AND key IN (SELECT key FROM batch_keys WHERE tenant_id = ${tenantId} AND batch_id = ${batchId} LIMIT ${limit})
    RETURNING 1`;
}
