import { defineStep, type EffectCall } from "millrace";
import { removeUploads } from "../systems/batches/file.ts";

/** Deletes the uploaded file of a batch. The step does not delete files that the tenant itself stored in the bucket. */
export const removeUpload = defineStep({
  effect: "natural",
  async run({ input: { tenantId, batchId }, env }: EffectCall<{ tenantId: string; batchId: string }>): Promise<undefined> {
    await removeUploads(env.PAYLOADS, tenantId, batchId);
  },
});
