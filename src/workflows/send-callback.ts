import { callbackSender } from "millrace";
import { checkTarget } from "../systems/webhooks/guard.ts";

/** Calls the callback URLs of commands, only where a tenant's endpoint may be called. */
export const sendCallback = callbackSender({ guard: checkTarget });
