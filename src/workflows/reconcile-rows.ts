import { defineWorkflow } from "millrace";
import { BatchReconcile } from "../messages/batches.ts";
import { removeUpload } from "../steps/remove-upload.ts";
import { chunkCount } from "../systems/batches/limits.ts";
import { type Compared, compareChunk, compareRest, type Rest } from "../systems/batches/reconcile.ts";

/**
 * Compares a file with the stored rows. The workflow first compares every row of the file, and then finds stored rows that are missing in
 * the file. The workflow's steps are inline, like the steps of an import.
 */
export const reconcileRows = defineWorkflow({
  name: "reconcile-rows",
  on: BatchReconcile,
  steps: "inline",
  async run({ payload: { batch_id: batchId }, step, env, envelope }) {
    const call = { env, envelope, batchId };
    const chunks = chunkCount();
    let at: Compared | undefined;
    do {
      const from = at?.place;
      chunks.count();
      at = await step.commit("compare rows", ({ progress }) => compareChunk({ ...call, progress }, from), {
        key: from ? `from ${from.offset}` : "start",
      });
    } while (at.place);

    let rest = at.rest ?? null;
    while (rest !== null) {
      const from: Rest = rest;
      chunks.count();
      rest = await step.commit("look for the rest", ({ progress }) => compareRest({ ...call, progress }, from), {
        key: `part ${from.part}`,
      });
    }
    await step.effect("remove the upload", removeUpload, { tenantId: envelope.tenant_id, batchId });
  },
});
