import { defineWorkflow } from "../engine/index.ts";
import { BatchExport } from "../messages/batches.ts";

export const exportRows = defineWorkflow({ name: "export-rows", on: BatchExport, run: async () => undefined });
