import { type Commit, type Envelope, notRetryable } from "millrace";
import { advance, type Batch, findBatch, type Operation } from "./batch.ts";
import type { Dataset } from "./dataset.ts";
import { DATASETS } from "./datasets.ts";

/** The command that works on a batch. */
export interface BatchCall {
  readonly env: Cloudflare.Env;
  readonly envelope: Envelope;
  readonly batchId: string;
}

/** A batch as a chunk finds it; or the commit that ends it, because somebody has cancelled it. */
export async function openBatch(
  { env, envelope, batchId }: BatchCall,
  operation: Operation,
): Promise<{ batch: Batch; dataset: Dataset } | { cancelled: Commit<null> }> {
  // Locally one thread does everything, and chunk upon chunk would leave it no time to answer who asks how far the batch is.
  await scheduler.wait(1);
  const batch = await findBatch(env.DB, envelope.tenant_id, batchId);
  const dataset = batch && DATASETS.get(batch.dataset);
  if (batch?.operation !== operation || !dataset) {
    throw notRetryable(`There is no ${operation} “${batchId}”: ask for one with POST /v1/batches, which sends its command itself.`);
  }
  if (batch.cancelReason === null) return { batch, dataset };
  return { cancelled: { statements: [advance(batch, { ends: "cancelled" })], output: null } };
}
