import { defineStep, defineWorkflow } from "millrace";
import * as z from "zod";

const write = defineStep<{ to: string; text: string }, void>({
  effect: "keyed",
  async run({ input, key, fetch }) {
    const headers = { "idempotency-key": key };
    await fetch(`https://mail.example.com/${input.to}`, { method: "POST", headers, body: input.text });
  },
});

/** Version 2 sends one letter; version 1 waited a day between two. */
export const greetCustomer = defineWorkflow({
  name: "greet-customer",
  input: z.object({ email: z.email() }),
  version: 2,
  async run({ input: { email: to }, step }) {
    await step.effect("welcome", write, { to, text: "Welcome, and here is how to begin." });
  },
  previous: {
    async 1({ input: { email: to }, step }) {
      await step.effect("greet", write, { to, text: "Welcome." });
      await step.sleep("a day", "1 day");
      await step.effect("explain", write, { to, text: "Here is how to begin." });
    },
  },
});
