import { defineConsumer } from "millrace";
import { bulkAction } from "millrace/worker";
import { bulkActions } from "../messages/queues.ts";

/** The consumer of operators' bulk actions. Each bulk action runs for minutes or hours. */
export const bulkActing = defineConsumer({
  queue: bulkActions,
  retries: { limit: 3, initial: "10 seconds", max: "5 minutes" },
  starts: [bulkAction],
});
