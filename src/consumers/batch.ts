import { defineConsumer } from "millrace";
import { batch } from "../messages/queues.ts";
import { deleteTenant } from "../workflows/delete-tenant.ts";
import { exportRows } from "../workflows/export-rows.ts";
import { importRows } from "../workflows/import-rows.ts";
import { rebuildProjection } from "../workflows/rebuild-projection.ts";
import { reconcileRows } from "../workflows/reconcile-rows.ts";

export const batching = defineConsumer({
  queue: batch,
  retries: { limit: 3, initial: "30 seconds", max: "5 minutes" },
  // The queue has few messages, and each message starts hours of work, so the consumer processes few batches in parallel.
  concurrency: 2,
  starts: [importRows, exportRows, reconcileRows, rebuildProjection, deleteTenant],
});
