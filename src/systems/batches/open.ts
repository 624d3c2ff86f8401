import { type Commit, type EffectCall, type Envelope, notRetryable } from "millrace";
import { advance, type Batch, findBatch, type Operation } from "./batch.ts";
import type { Dataset } from "./dataset.ts";
import { DATASETS } from "./datasets.ts";

/** The call of a workflow that processes a batch. */
export interface BatchCall extends Pick<EffectCall<never>, "progress"> {
  readonly env: Cloudflare.Env;
  readonly envelope: Envelope;
  readonly batchId: string;
}

/**
 * Loads a batch for the next chunk, and reports the batch's progress. If the batch was cancelled, the function returns the commit that ends
 * the batch.
 */
export async function openBatch(
  { env, envelope, batchId, progress }: BatchCall,
  operation: Operation,
): Promise<{ batch: Batch; dataset: Dataset } | { cancelled: Commit<null> }> {
  // On a local machine all code shares one thread. Without this pause, requests for the batch's progress would never run.
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
