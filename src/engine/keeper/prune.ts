import type { EngineEnv } from "../contract/bindings.ts";
import { now, type SqlValue, sql } from "../contract/sql.ts";
import { batch } from "../store/retry.ts";

/** Days an ended instance stays readable: queue retention (14 at most) plus as long again to re-drive it. */
const RETENTION_DAYS = 30;
const DAY_MS = 86_400_000;
/** Rows of one round: small, so that a round never holds the database for long. */
const ROWS = 200;

/** Removes ended instances past their retention with their entries, leaving a tombstone each: their keys never run a second time. */
export async function prune(env: EngineEnv): Promise<number> {
  const before: SqlValue = RETENTION_DAYS * DAY_MS;
  const old = {
    fragment: `SELECT id FROM instances WHERE status IN ('complete', 'terminated', 'skipped') AND accepted_at <= ${now.fragment} - ${before} AND updated_at <= ${now.fragment} - ${before} ORDER BY accepted_at LIMIT ${ROWS}`,
  };
  const [tombstones = []] = await batch(env.DB, [
    sql`INSERT INTO tombstones (id, fingerprint, pruned_at) SELECT id, fingerprint, ${now} FROM instances WHERE id IN (${old}) ON CONFLICT (id) DO NOTHING RETURNING id`,
    sql`DELETE FROM inbox WHERE instance_id IN (SELECT id FROM tombstones WHERE id IN (${old}))`,
    sql`DELETE FROM waits WHERE instance_id IN (SELECT id FROM tombstones WHERE id IN (${old}))`,
    sql`DELETE FROM instances WHERE id IN (SELECT id FROM tombstones WHERE id IN (${old}))`,
  ]);
  return tombstones.length ?? 0;
}
