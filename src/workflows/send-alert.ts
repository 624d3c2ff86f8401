import { alertSender } from "millrace";
import { checkTarget } from "../systems/webhooks/guard.ts";

/** Sends alerts to the configured channels. A signed webhook may go only where a tenant's endpoint may. */
export const sendAlert = alertSender({ guard: checkTarget });
