import { callbackSender } from "millrace/worker";
import { checkTarget } from "../systems/webhooks/guard.ts";

/** Calls the callback URLs of commands. Each URL must pass the same check as a tenant's endpoint. */
export const sendCallback = callbackSender({ guard: checkTarget });
