import { defineStep, type EffectCall } from "millrace";
import { removeUploads } from "../systems/batches/file.ts";

/** Removes the file that was uploaded for a batch. What its tenant put into the bucket itself stays. */
export const removeUpload = defineStep({
  effect: "natural",
  async run({ input: { tenantId, batchId }, env }: EffectCall<{ tenantId: string; batchId: string }>): Promise<undefined> {
    await removeUploads(env.PAYLOADS, tenantId, batchId);
  },
});
