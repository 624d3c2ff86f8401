import { defineWorkflow } from "millrace";
import { BatchImport } from "../messages/batches.ts";
import { removeUpload } from "../steps/remove-upload.ts";
import { importChunk } from "../systems/batches/import.ts";
import { chunkCount } from "../systems/batches/limits.ts";
import type { Place } from "../systems/batches/rows.ts";

/**
 * Imports a file's rows, chunk by chunk. A chunk is one write, named by the chunk's position in the file. Therefore no row is imported
 * twice, even if the run is interrupted at any point. The workflow's steps are inline, because a chunk takes a fraction of a second and a
 * large file has thousands of chunks.
 */
export const importRows = defineWorkflow({
  name: "import-rows",
  on: BatchImport,
  steps: "inline",
  async run({ payload: { batch_id: batchId }, step, env, envelope }) {
    const call = { env, envelope, batchId };
    const chunks = chunkCount();
    for (let from: Place | undefined; ; ) {
      const at = from;
      chunks.count();
      const next = await step.commit("take rows", ({ progress }) => importChunk({ ...call, progress }, at), {
        key: at ? `from ${at.offset}` : "start",
      });
      if (next === null) break;
      from = next;
    }
    // The upload is removed, because it is not needed any more and may mention a person who was forgotten before the upload arrived.
    await step.effect("remove the upload", removeUpload, { tenantId: envelope.tenant_id, batchId });
  },
});
