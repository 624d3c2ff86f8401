import { defineConsumer, on, start } from "millrace";
import { AlertChanged } from "millrace/worker";
import { alerts } from "../messages/queues.ts";
import { sendAlert } from "../workflows/send-alert.ts";

/** The consumer of alerts. To handle alerts with a custom workflow, add that workflow to the routes as a further `start(…)`. */
export const alerting = defineConsumer({
  queue: alerts,
  retries: { limit: 5, initial: "10 seconds", max: "5 minutes" },
  routes: [on(AlertChanged, start(sendAlert))],
});
