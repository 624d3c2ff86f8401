import { env } from "cloudflare:workers";

/** A statement that ran: how it found its rows, and how many it read. */
export interface Ran {
  text: string;
  plan: string[];
  read: number;
}

/** The real database, with its statements recorded. */
export function watched(): { db: D1Database; ran: Ran[] } {
  const ran: Ran[] = [];
  const asked = new WeakMap<D1PreparedStatement, { text: string; params: unknown[] }>();
  const db = {
    prepare: (text: string) => ({
      bind(...params: unknown[]) {
        const statement = env.DB.prepare(text).bind(...params);
        asked.set(statement, { text, params });
        return statement;
      },
    }),
    async batch(statements: D1PreparedStatement[]) {
      const plans = await env.DB.batch<{ detail: string }>(
        statements.map((statement) => {
          const { text = "", params = [] } = asked.get(statement) ?? {};
          return env.DB.prepare(`EXPLAIN QUERY PLAN ${text}`).bind(...params);
        }),
      );
      const results = await env.DB.batch(statements);
      for (const [index, { meta }] of results.entries()) {
        const plan = plans[index]?.results.map(({ detail }) => detail) ?? [];
        ran.push({ text: asked.get(statements[index] as D1PreparedStatement)?.text ?? "", plan, read: meta.rows_read });
      }
      return results;
    },
  };
  return { db: db as unknown as D1Database, ran };
}
