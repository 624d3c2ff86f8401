import { callbackSender } from "millrace";
import { checkTarget } from "../systems/webhooks/guard.ts";

/** Calls the addresses that commands name, where a tenant's endpoint may be called, and nowhere else. */
export const sendCallback = callbackSender({ guard: checkTarget });
