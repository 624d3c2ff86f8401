import { defineConsumer } from "millrace";
import type { Repair } from "millrace/operate";
import { orderCommands } from "./messages.ts";
import { shipOrder } from "./workflow.ts";

/** The old shop writes addresses with a space at the end. */
const trimmedEmail: Repair = {
  name: "trimmed-email",
  when: ({ reason, message: { source } }) => reason === "invalid_payload" && source === "old-shop",
  fix: (message) => {
    const payload = message.payload_inline as { email: string };
    return { ...message, payload_inline: { ...payload, email: payload.email.trim() } };
  },
};

export const shipping = defineConsumer({ queue: orderCommands, repairs: [trimmedEmail], starts: [shipOrder] });
