import { defineStep, type EffectCall } from "millrace";
import { removeUploads } from "../systems/batches/file.ts";

/** Deletes the uploaded file of a batch. Files that the tenant itself put into the bucket remain. */
export const removeUpload = defineStep({
  effect: "natural",
  async run({ input: { tenantId, batchId }, env }: EffectCall<{ tenantId: string; batchId: string }>): Promise<undefined> {
    await removeUploads(env.PAYLOADS, tenantId, batchId);
  },
});
