import { defineWorkflow } from "../engine/index.ts";
import { BatchImport } from "../messages/batches.ts";

export const importRows = defineWorkflow({ name: "import-rows", on: BatchImport, run: async () => undefined });
