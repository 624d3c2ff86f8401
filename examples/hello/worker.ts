import { defineWorkflow, millrace } from "millrace";
import * as z from "zod";

/** Greets each name once, because the name is the instance's key: a second request with the same name starts no new instance. */
const greet = defineWorkflow({
  name: "greet",
  input: z.object({ name: z.string().min(1).max(100) }),
  key: ({ name }) => name,
  run: ({ input, step }) => step.commit("greet", () => ({ output: { said: `Good morning, ${input.name}.` } })),
});

export const { handler, Runs, Recorder, Keeper } = millrace({ workflows: [greet] });
export default handler;
