import { ids, MillraceError, type traces } from "millrace";
import { act, type Operator } from "millrace/operate";
import type { Catalog } from "millrace/worker";
import { acceptBatch } from "./accept.ts";
import { type Batch, findBatch } from "./batch.ts";
import { batchFolder, type StoredFile, storeUpload } from "./file.ts";
import { readPartKeys, rowsKeyOf } from "./parts.ts";
import { countUpload } from "./uploads.ts";

/**
 * Returns the id of the batch that imports the failed rows of another batch again. Each repetition gets the same id. The id is not longer
 * than the maximum length of an id.
 */
const retryIdOf = (batchId: string) => `${batchId.slice(0, 48)}-retry-${ids.fingerprint(batchId).slice(0, 8)}`;

/**
 * Imports the failed rows of an ended import again, as a new batch that refers to the ended batch as its parent. A repeated request returns
 * the same batch. Rows that could not be read, or that mention a forgotten person, are left out. The action is audited as a retry of the
 * parent.
 *
 * Errors: `invalid_transition` if the batch is not an import, is still in progress, or has no row to import again.
 */
export async function retryFailed(
  env: Env,
  catalog: Catalog,
  by: Operator,
  parent: Batch,
  reason: string,
  trace?: Parameters<typeof traces.nextHop>[0],
): Promise<{ batch: Batch; replayed: boolean; actionId: string }> {
  const batchId = retryIdOf(parent.batchId);
  const known = await findBatch(env.DB, by.tenantId, batchId);
  const file = known?.parentId === parent.batchId ? fileOf(known) : await failedRows(env, parent, batchId);
  const { dataset, formulas, batchId: parentId } = parent;
  const request = { operation: "import", dataset, batchId, format: "jsonl", formulas, parentId } as const;
  const action = {
    id: crypto.randomUUID(),
    verb: "retry",
    target: parentId,
    instanceId: parent.instanceId,
    reason,
    detail: { batch_id: batchId },
  };
  const accepted = await acceptBatch(env, catalog, { tenantId: by.tenantId, source: `api/${by.actor}` }, request, file, {
    trace,
    act: async (insert) => (await act(env, by, action, { change: insert })).isApplied,
  });
  // If the accepted batch has another file, a concurrent request was accepted and this request's file is an unused copy.
  if (accepted.batch.fileKey !== file.key) await env.PAYLOADS.delete(file.key);
  return { ...accepted, actionId: action.id };
}

function fileOf({ fileKey, fileEtag, totalBytes, layout }: Batch): StoredFile {
  return { key: fileKey ?? "", etag: fileEtag ?? "", size: totalBytes ?? 0, layout };
}

/**
 * Stores the failed rows of a batch as the upload of another batch. The rows are streamed, because they may be as large as the batch's
 * file.
 */
async function failedRows(env: Env, parent: Batch, batchId: string): Promise<StoredFile> {
  assertMayRetry(parent);
  const { tenantId } = parent;
  const sizes = await sizesOf(env.PAYLOADS, parent);
  const keys: string[] = [];
  for await (const key of readPartKeys(env, parent, "errors")) if (sizes.has(rowsKeyOf(key))) keys.push(rowsKeyOf(key));
  const length = keys.reduce((sum, key) => sum + (sizes.get(key) ?? 0), 0);
  if (length === 0) throw refused(parent, "has no failed row that can be tried again");
  await countUpload(env.DB, tenantId, length);
  const left = keys.values();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { value: key } = left.next();
      if (key === undefined) return controller.close();
      const part = await env.PAYLOADS.get(key);
      if (!part) throw new Error(`The part ${key} of the failed rows is gone from the bucket.`);
      controller.enqueue(await part.bytes());
    },
  });
  return storeUpload(env.PAYLOADS, tenantId, batchId, body, length);
}

function assertMayRetry(batch: Batch): void {
  const { operation, state } = batch;
  if (operation !== "import") throw refused(batch, `is of the operation ${operation}: only the rows of an import can be tried again`);
  if (state === "complete" || state === "cancelled") return;
  throw refused(batch, `is ${state}: its failed rows can be tried again when it is complete or cancelled`);
}

function refused({ batchId, state }: Batch, why: string): MillraceError {
  return new MillraceError("invalid_transition", `The batch ${batchId} ${why}.`, { from: state, to: "accepted" });
}

/** Reads the sizes of the stored failed rows of a batch, including those of attempts that were not committed. */
async function sizesOf(bucket: R2Bucket, { tenantId, batchId }: Batch): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  for (let cursor: string | undefined; ; ) {
    const listed = await bucket.list({ prefix: `${batchFolder(tenantId, batchId)}rows/`, ...(cursor && { cursor }) });
    for (const { key, size } of listed.objects) if (size > 0) sizes.set(key, size);
    if (!listed.truncated) return sizes;
    cursor = listed.cursor;
  }
}
