import { defineWorkflow } from "../engine/index.ts";
import { ProjectionRebuild } from "../messages/batches.ts";

export const rebuildProjection = defineWorkflow({ name: "rebuild-projection", on: ProjectionRebuild, run: async () => undefined });
