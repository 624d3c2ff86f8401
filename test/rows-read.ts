import { env } from "cloudflare:workers";

/** The number of rows that the database reads for a function, and the function's result. */
export async function rowsRead<T>(ask: () => Promise<T>): Promise<{ read: number; answer: T }> {
  const proto = Object.getPrototypeOf(env.DB) as D1Database;
  const own = proto.batch;
  let read = 0;
  proto.batch = async function batch(this: D1Database, statements: D1PreparedStatement[]) {
    const results = await own.call(this, statements);
    read += results.reduce((sum, { meta }) => sum + (meta.rows_read ?? 0), 0);
    return results;
  } as typeof own;
  try {
    const answer = await ask();
    return { read, answer };
  } finally {
    proto.batch = own;
  }
}
