import { now, query, sql } from "millrace";
import type { Retention } from "millrace/worker";

/** Rows that go at once. */
const ROWS = 500;

/**
 * How long the record of paid answers stays: long enough to hold a year's bills against it. Reads the table once a week; its index begins
 * with the tenant.
 */
export const contentRetention: readonly Retention[] = [
  {
    name: "text calls",
    keepDays: 400,
    everyHours: 168,
    async prune(env, keepMs) {
      const gone = await query(
        env.DB,
        sql`
          DELETE FROM text_calls WHERE (tenant_id, content_id, attempt) IN (
            SELECT tenant_id, content_id, attempt FROM text_calls WHERE paid_at < ${now} - ${keepMs} LIMIT ${ROWS})
          RETURNING 1`,
      );
      return gone.length;
    },
  },
];
