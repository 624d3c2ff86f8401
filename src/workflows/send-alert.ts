import { alertSender } from "millrace";
import { checkTarget } from "../systems/webhooks/guard.ts";

/** Sends alerts to the channels that are configured. A signed webhook goes where a tenant's endpoint may go, and nowhere else. */
export const sendAlert = alertSender({ guard: checkTarget });
