import { type Commit, type Envelope, notRetryable, type Reporting } from "millrace";
import { advance, type Batch, findBatch, type Operation } from "./batch.ts";
import type { Dataset } from "./dataset.ts";
import { DATASETS } from "./datasets.ts";

/** The call of a workflow that processes a batch. */
export interface BatchCall extends Reporting {
  readonly env: Cloudflare.Env;
  readonly envelope: Envelope;
  readonly batchId: string;
}

/** Loads a batch for its next chunk, and reports its progress; or returns the commit that ends it, because it was cancelled. */
export async function openBatch(
  { env, envelope, batchId, progress }: BatchCall,
  operation: Operation,
): Promise<{ batch: Batch; dataset: Dataset } | { cancelled: Commit<null> }> {
  // Locally all code shares one thread: without this pause, requests for the batch's progress would starve.
  await scheduler.wait(1);
  const batch = await findBatch(env.DB, envelope.tenant_id, batchId);
  const dataset = batch && DATASETS.get(batch.dataset);
  if (batch?.operation !== operation || !dataset) {
    throw notRetryable(`There is no ${operation} “${batchId}”: start it with POST /v1/batches, which sends its command.`);
  }
  const { rowsDone, rowsFailed, rowsSkipped, readBytes, totalBytes } = batch;
  progress({ done: rowsDone + rowsFailed + rowsSkipped, ...(totalBytes && { share: readBytes / totalBytes }), text: "rows" });
  if (batch.cancelReason === null) return { batch, dataset };
  return { cancelled: { statements: [advance(batch, { ends: "cancelled" })], output: null } };
}
