import { defineWorkflow } from "../engine/index.ts";
import { BatchReconcile } from "../messages/batches.ts";

export const reconcileRows = defineWorkflow({ name: "reconcile-rows", on: BatchReconcile, run: async () => undefined });
