import { defineWorkflow, millrace } from "millrace";
import * as z from "zod";

/** Greets each name once: the key names the work, so the same name is the same instance. */
const greet = defineWorkflow({
  name: "greet",
  input: z.object({ name: z.string().min(1).max(100) }),
  key: ({ name }) => name,
  run: ({ input, step }) => step.commit("greet", () => ({ output: { said: `Good morning, ${input.name}.` } })),
});

export const { handler, Runs, Recorder, Keeper } = millrace({ workflows: [greet] });
export default handler;
