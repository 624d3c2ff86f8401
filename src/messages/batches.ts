import { defineCommand } from "millrace";
import * as z from "zod";
import { batch } from "./queues.ts";

const job = { batch_id: z.string().min(1).max(64) };
const key = ({ batch_id }: { batch_id: string }) => batch_id;
// A batch has one run, which its route starts with its row. A second run under another key would process the same rows.
const door = { scope: null, route: "POST /v1/batches" };

/** Imports the rows of a file. */
export const BatchImport = defineCommand({ type: "batch.import", payload: z.object(job), key, subject: key, queue: batch, door });

/** Exports rows to a file. */
export const BatchExport = defineCommand({ type: "batch.export", payload: z.object(job), key, subject: key, queue: batch, door });

/** Compares the rows of a file with the stored rows. */
export const BatchReconcile = defineCommand({ type: "batch.reconcile", payload: z.object(job), key, subject: key, queue: batch, door });

/**
 * Rebuilds from the ledgers: the projection of facts, or the data derived from facts. `request` names the rebuild: the same name is the
 * same rebuild.
 */
export const ProjectionRebuild = defineCommand({
  type: "projection.rebuild",
  payload: z.object({ projection: z.enum(["facts", "derived"]), request: z.string().min(1).max(100) }),
  key: ({ projection, request }) => `${projection}/${request}`,
  subject: ({ projection }) => projection,
  queue: batch,
  door: { scope: "operate", route: "POST /v1/projections/facts/rebuild and /v1/projections/derived/rebuild" },
});
