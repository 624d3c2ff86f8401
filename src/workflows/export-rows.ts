import { defineWorkflow } from "millrace";
import { BatchExport } from "../messages/batches.ts";
import { exportPage, type Page } from "../systems/batches/export.ts";
import { chunkCount } from "../systems/batches/limits.ts";

/**
 * Writes a dataset's rows into a file, page by page. Each page is a part of the result, and is committed with the cursor of the next page.
 * The workflow's steps are inline, because a page takes less than a second and a large export has thousands of pages.
 */
export const exportRows = defineWorkflow({
  name: "export-rows",
  on: BatchExport,
  steps: "inline",
  async run({ payload: { batch_id: batchId }, step, env, envelope }) {
    const call = { env, envelope, batchId };
    const chunks = chunkCount();
    for (let from: Page | undefined; ; ) {
      const at = from;
      chunks.count();
      const next = await step.commit("write rows", ({ progress }) => exportPage({ ...call, progress }, at), {
        key: at ? `part ${at.part}` : "start",
      });
      if (next === null) return;
      from = next;
    }
  },
});
