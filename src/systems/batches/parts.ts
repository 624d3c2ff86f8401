import { query, type Statement, sql } from "millrace";
import { batchFolder } from "./file.ts";

/** The files that a batch writes for download, in parts. */
export type Report = "errors" | "result";

interface Owner {
  tenantId: string;
  batchId: string;
}

/**
 * Stores a part of a report in the bucket, and returns the statement that adds the part to the report in the chunk's commit. Every attempt
 * writes a new object, so a late attempt of an old process cannot change committed parts. `rows` are the failed rows of the part, for
 * another import.
 */
export async function keepPart(
  bucket: R2Bucket,
  { tenantId, batchId }: Owner,
  report: Report,
  part: number,
  text: string,
  rows = "",
): Promise<Statement[]> {
  if (text === "") return [];
  const key = `${batchFolder(tenantId, batchId)}${report}/${String(part).padStart(16, "0")}-${crypto.randomUUID()}`;
  if (rows !== "") await bucket.put(rowsKeyOf(key), rows);
  await bucket.put(key, text);
  return [
    sql`INSERT INTO batch_parts (tenant_id, batch_id, report, part, key) VALUES (${tenantId}, ${batchId}, ${report}, ${part}, ${key})`,
  ];
}

/** Returns the key of the object in the folder `rows` that contains the failed rows of a report's part. */
export function rowsKeyOf(key: string): string {
  const [folder, tenant, batch, , ...name] = key.split("/");
  return [folder, tenant, batch, "rows", ...name].join("/");
}

/** Maximum number of a report's parts that one query reads. */
const PARTS = 100;

/** Reads a report's parts in order. Only one part is in memory at a time. */
export async function* readParts(env: Pick<Cloudflare.Env, "DB" | "PAYLOADS">, owner: Owner, report: Report): AsyncGenerator<string> {
  for await (const key of readPartKeys(env, owner, report)) {
    const object = await env.PAYLOADS.get(key);
    if (!object) throw new Error(`The part ${key} of a report is gone from the bucket.`);
    yield await object.text();
  }
}

/** Reads the keys of a report's committed parts, in order. */
export async function* readPartKeys(env: Pick<Cloudflare.Env, "DB">, { tenantId, batchId }: Owner, report: Report): AsyncGenerator<string> {
  let after = -1;
  for (;;) {
    const parts = await query<{ part: number; key: string }>(
      env.DB,
      sql`
        SELECT part, key FROM batch_parts
        WHERE tenant_id = ${tenantId} AND batch_id = ${batchId} AND report = ${report} AND part > ${after} ORDER BY part LIMIT ${PARTS}`,
    );
    for (const { key } of parts) yield key;
    const last = parts.at(-1);
    if (!last || parts.length < PARTS) return;
    after = last.part;
  }
}
