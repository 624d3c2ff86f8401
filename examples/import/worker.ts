import { defineWorkflow, millrace, notRetryable, sql } from "millrace";
import * as z from "zod";

const row = z.object({ name: z.string().min(1).max(100), country: z.string().length(2) });

/** Imports the rows of a file, 10 at a time. A row with an unknown country fails; all others are inserted. */
const importRows = defineWorkflow({
  name: "import",
  input: z.object({ file: z.string().min(1), rows: z.array(row).min(1).max(1000) }),
  key: ({ file }) => file,
  async run({ input: { file, rows }, step, env }) {
    const { DB } = env as unknown as { DB: D1Database };
    await step.map(rows, { key: ({ name }) => name }, ({ name, country }, each) =>
      each.commit("insert row", async () => {
        const known = await DB.prepare("SELECT 1 FROM countries WHERE code = ?").bind(country).first();
        if (known === null) throw notRetryable(`${name}: the table countries has no "${country}".`);
        return { statements: [sql`INSERT INTO people (file, name, country) VALUES (${file}, ${name}, ${country})`] };
      }),
    );
    return { rows: rows.length };
  },
});

/** Adds a country. */
const addCountry = defineWorkflow({
  name: "add-country",
  input: z.object({ code: z.string().length(2) }),
  key: ({ code }) => code,
  run: ({ input: { code }, step }) =>
    step.commit("insert country", () => ({ statements: [sql`INSERT INTO countries (code) VALUES (${code}) ON CONFLICT DO NOTHING`] })),
});

export const { handler, Runs, Recorder, Keeper } = millrace({ workflows: [importRows, addCountry] });
export default handler;
