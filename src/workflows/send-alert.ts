import { alertSender } from "millrace/worker";
import { checkTarget } from "../systems/webhooks/guard.ts";

/** Sends alerts to the configured channels. The address of a signed webhook must pass the same check as a tenant's endpoint. */
export const sendAlert = alertSender({ guard: checkTarget });
