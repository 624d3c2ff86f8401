import { enqueue, errors, ids, MillraceError, query, type Statement, sql, type traces } from "millrace";
import { instances } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import { BatchExport, BatchImport, BatchReconcile } from "../../messages/batches.ts";
import { type Batch, findBatch, insertBatch } from "./batch.ts";
import { DATASETS } from "./datasets.ts";
import type { StoredFile } from "./file.ts";
import { HEAD_BYTES, type Layout, readLayout } from "./layout.ts";

const COMMANDS = { import: BatchImport, export: BatchExport, reconcile: BatchReconcile };

export type BatchRequest = Pick<Batch, "operation" | "dataset" | "batchId" | "format" | "formulas"> & Partial<Pick<Batch, "parentId">>;

/**
 * Accepts a batch: writes the batch's row, then sends the batch's command. If the process dies in between, a repetition of the request
 * sends the command. The id identifies the batch, so a repeated request returns the same batch. `act` writes the row as an operator's
 * action, and returns whether the row is new. Errors: `invalid_payload` for a file with an unusable header, `idempotency_key_reused` for an
 * id that was used with another operation, dataset or file.
 */
export async function acceptBatch(
  env: Env,
  catalog: Catalog,
  by: { tenantId: string; source: string },
  request: BatchRequest,
  file: StoredFile | null,
  {
    trace = {},
    act: acting,
  }: { trace?: Parameters<typeof traces.nextHop>[0] | undefined; act?: (insert: Statement) => Promise<boolean> } = {},
): Promise<{ batch: Batch; replayed: boolean }> {
  const { tenantId } = by;
  const { batchId, operation, dataset, format, formulas } = request;
  const command = COMMANDS[operation];
  const layout = file && (file.layout ?? (await layoutOf(env.PAYLOADS, request, file)));
  const fingerprint = ids.fingerprint([operation, dataset, format, formulas, file?.etag ?? null]);
  const insert = insertBatch({
    ...request,
    parentId: request.parentId ?? null,
    tenantId,
    fingerprint,
    instanceId: ids.instance(tenantId, catalog.performer(command.type).name, batchId),
    fileKey: file?.key ?? null,
    fileEtag: file?.etag ?? null,
    totalBytes: file?.size ?? null,
    layout,
  });
  const isFresh = acting ? await acting(insert) : (await query(env.DB, insert)).length > 0;
  const batch = await findBatch(env.DB, tenantId, batchId);
  if (batch?.fingerprint !== fingerprint) throw reused(batchId, "names another batch: another operation, dataset, format or file");

  const [accepted] = await enqueue(env, catalog, by, [{ command, payload: { batch_id: batchId }, ...trace }]);
  if (!accepted || accepted instanceof MillraceError) {
    // The error means that another command, which was sent manually, has the key of this batch.
    if (isFresh) await forget(env, batch);
    throw accepted;
  }
  if (isFresh && accepted.replayed) await refuseForgotten(env, batch);
  return { batch, replayed: accepted.replayed };
}

/** Determines the file's layout from exactly the accepted version of the file, because another version may have different columns. */
async function layoutOf(bucket: R2Bucket, { format, dataset }: BatchRequest, { key, etag, size }: StoredFile): Promise<Layout> {
  const known = DATASETS.get(dataset);
  if (!known) throw new MillraceError("invalid_payload", `There is no dataset ${dataset}.`);
  if (size === 0) return readLayout(format, new Uint8Array(), known);
  const head = await bucket.get(key, { range: { offset: 0, length: Math.min(size, HEAD_BYTES) }, onlyIf: { etagMatches: etag } });
  if (!head || !("body" in head)) {
    throw new MillraceError("invalid_payload", `The file ${key} was changed or removed during the request: repeat the request.`, {
      issues: [{ path: "file", message: "was changed or removed during the request" }],
    });
  }
  return readLayout(format, new Uint8Array(await head.arrayBuffer()), known);
}

/**
 * Refuses a batch whose row and instance have been pruned. The key of the batch's command still exists, so the command cannot run a second
 * time.
 */
async function refuseForgotten(env: Env, batch: Batch): Promise<void> {
  try {
    await instances.get(env, { tenantId: batch.tenantId, actor: "" }, batch.instanceId);
  } catch (error) {
    if (errors.codeOf(error) !== "instance_not_found") throw error;
    await forget(env, batch);
    throw reused(batch.batchId, "was used by a batch that has been pruned");
  }
}

async function forget(env: Env, { tenantId, batchId }: Batch): Promise<void> {
  await query(env.DB, sql`DELETE FROM batches WHERE tenant_id = ${tenantId} AND batch_id = ${batchId}`);
}

function reused(batchId: string, why: string): MillraceError {
  return new MillraceError("idempotency_key_reused", `The batch id “${batchId}” ${why}. Give new work a new id.`, {
    issues: [{ path: "batch_id", message: "is taken" }],
  });
}
