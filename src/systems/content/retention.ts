import { query, sql } from "millrace";
import type { Retention } from "millrace/worker";

/** Maximum number of rows that one statement deletes. */
const ROWS = 500;

/**
 * Records of paid answers are kept long enough to check a year's bills. The table is read once a week, because its index begins with the
 * tenant.
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
            SELECT tenant_id, content_id, attempt FROM text_calls WHERE paid_at < ${sql.now} - ${keepMs} LIMIT ${ROWS})
          RETURNING 1`,
      );
      return gone.length;
    },
  },
];
