import { defineCommand } from "millrace";
import * as z from "zod";
import { batch } from "./queues.ts";

const job = { batch_id: z.string().min(1).max(64) };
const key = ({ batch_id }: { batch_id: string }) => batch_id;
// Only the route of batches starts the run of a batch, together with the row of the batch. A command with another key would start a second
// run of the batch, which would process the same rows again.
const access = { scope: null, route: "POST /v1/batches" };

/** The command to import the rows of a file. */
export const BatchImport = defineCommand({ type: "batch.import", payload: z.object(job), key, subject: key, queue: batch, access });

/** The command to export rows to a file. */
export const BatchExport = defineCommand({ type: "batch.export", payload: z.object(job), key, subject: key, queue: batch, access });

/** The command to compare the rows of a file with the stored rows. */
export const BatchReconcile = defineCommand({ type: "batch.reconcile", payload: z.object(job), key, subject: key, queue: batch, access });

/**
 * The command to rebuild data from the ledgers: the projection of facts, or the data derived from facts. `request` names the rebuild.
 * Commands with the same name start one rebuild.
 */
export const ProjectionRebuild = defineCommand({
  type: "projection.rebuild",
  payload: z.object({ projection: z.enum(["facts", "derived"]), request: z.string().min(1).max(100) }),
  key: ({ projection, request }) => `${projection}/${request}`,
  subject: ({ projection }) => projection,
  queue: batch,
  access: { scope: "operate", route: "POST /v1/projections/facts/rebuild and /v1/projections/derived/rebuild" },
});
