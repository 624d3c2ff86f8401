import { defineWorkflow } from "millrace";
import { BatchImport } from "../messages/batches.ts";
import { removeUpload } from "../steps/remove-upload.ts";
import { importChunk } from "../systems/batches/import.ts";
import { chunkCount } from "../systems/batches/limits.ts";
import type { Place } from "../systems/batches/rows.ts";

/**
 * Takes a file's rows in, chunk by chunk. A chunk is one write, named by its place in the file: no row is taken in twice, wherever the run
 * dies. Its steps are lean: a chunk takes a fraction of a second, and a large file has thousands.
 */
export const importRows = defineWorkflow({
  name: "import-rows",
  on: BatchImport,
  steps: "lean",
  async run({ payload: { batch_id: batchId }, step, env, envelope }) {
    const call = { env, envelope, batchId };
    const chunks = chunkCount();
    for (let from: Place | undefined; ; ) {
      const at = from;
      chunks.count();
      const next = await step.commit("take rows", () => importChunk(call, at), { key: at ? `from ${at.offset}` : "start" });
      if (next === null) break;
      from = next;
    }
    // Nobody reads an upload a second time, and it may name somebody who was forgotten before it came.
    await step.effect("remove the upload", removeUpload, { tenantId: envelope.tenant_id, batchId });
  },
});
