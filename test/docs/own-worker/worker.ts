import { defineWorkflow, millrace, sql } from "millrace";
import * as z from "zod";

/** Greet each name once. */
export const greet = defineWorkflow({
  name: "greet",
  input: z.object({ name: z.string().min(1).max(100) }),
  key: ({ name }) => name,
  async run({ input: { name }, step, envelope: { tenant_id } }) {
    const row = sql`INSERT INTO greetings (tenant_id, name, at) VALUES (${tenant_id}, ${name}, ${sql.now})`;
    await step.commit("write it down", () => ({ statements: [row] }));
    return { said: `Good morning, ${name}.` };
  },
});

export const { catalog, handler, Runs, Recorder, Keeper } = millrace({ workflows: [greet] });
export default handler;
