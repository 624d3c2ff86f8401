import { bulkAction, defineConsumer } from "millrace";
import { bulkActions } from "../messages/queues.ts";

/** Acts of operators on many things at once, each a run of minutes or hours. */
export const bulkActing = defineConsumer({
  queue: bulkActions,
  retries: { limit: 3, initial: "10 seconds", max: "5 minutes" },
  starts: [bulkAction],
});
