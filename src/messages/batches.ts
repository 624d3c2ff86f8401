import { defineCommand } from "millrace";
import * as z from "zod";
import { batch } from "./queues.ts";

const job = { batch_id: z.string().min(1).max(64) };
const key = ({ batch_id }: { batch_id: string }) => batch_id;
// A batch has one run, which its route sends with its row: a second one under another key would work on the same rows beside it.
const door = { scope: null, route: "POST /v1/batches" };

/** Take the rows of a file in. */
export const BatchImport = defineCommand({ type: "batch.import", payload: z.object(job), key, subject: key, queue: batch, door });

/** Write a file of rows. */
export const BatchExport = defineCommand({ type: "batch.export", payload: z.object(job), key, subject: key, queue: batch, door });

/** Hold the rows of a file against ours. */
export const BatchReconcile = defineCommand({ type: "batch.reconcile", payload: z.object(job), key, subject: key, queue: batch, door });

/**
 * Make again what is made of ledgers: the projection of facts, or what is derived from them. `request` names the occasion: the same one is
 * the same rebuild.
 */
export const ProjectionRebuild = defineCommand({
  type: "projection.rebuild",
  payload: z.object({ projection: z.enum(["facts", "derived"]), request: z.string().min(1).max(100) }),
  key: ({ projection, request }) => `${projection}/${request}`,
  subject: ({ projection }) => projection,
  queue: batch,
  door: { scope: "operate", route: "POST /v1/projections/facts/rebuild and /v1/projections/derived/rebuild" },
});
