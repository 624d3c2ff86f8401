import type { EngineEnv } from "../contract/bindings.ts";
import { sql } from "../contract/sql.ts";
import { query } from "../store/d1/retry.ts";

/** Reads one row of nothing: the database answers, or this throws what it threw. */
export async function pingDatabase(env: Pick<EngineEnv, "DB">): Promise<void> {
  await query(env.DB, sql`SELECT 1 AS ok`);
}
