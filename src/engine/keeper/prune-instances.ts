import type { EngineEnv } from "../contract/bindings.ts";
import { now, type Statement, sql } from "../contract/sql.ts";
import { batch, query } from "../store/retry.ts";
import type { Slice } from "./rule.ts";

/** Instances looked at, and at most removed, in one slice: with their entries a few thousand written rows. */
const ROWS = 250;

interface Walked {
  place: number;
  id: string;
  young: number;
  over: number;
}

/**
 * Removes instances of these statuses with their entries, waits and questions, leaving a tombstone each: their keys never run again, also those
 * that were given up. Rows are numbered as they are accepted, so it walks from the oldest to the first young one and needs no index:
 * it reads what it removes and what has stayed open since before.
 */
export function pruneInstances(statuses: readonly string[]): (env: EngineEnv, keepMs: number, from: string | null) => Promise<Slice> {
  return async (env, keepMs, from) => {
    const over = isOver(statuses, keepMs);
    const walked = await query<Walked>(
      env.DB,
      sql`
        SELECT rowid AS place, id, accepted_at > ${now} - ${keepMs} AS young, ${over} AS over
        FROM instances WHERE rowid > ${Number(from ?? Number.MIN_SAFE_INTEGER)} ORDER BY rowid LIMIT ${ROWS}`,
    );
    const removed = await remove(
      env,
      walked.filter((row) => row.over === 1).map(({ id }) => id),
      over,
      keepMs,
    );
    const last = walked.at(-1);
    return { removed, next: last && !last.young && walked.length === ROWS ? String(last.place) : null };
  };
}

/**
 * Long ended, and nobody is about to move it. One with an action that the platform has not heard of yet, or with an effect that nobody
 * knows the outcome of, is not over.
 */
function isOver(statuses: readonly string[], keepMs: number): Statement {
  return sql`(
    status IN (SELECT value FROM json_each(${JSON.stringify(statuses)})) AND updated_at <= ${now} - ${keepMs}
    AND NOT EXISTS (SELECT 1 FROM actions WHERE actions.applied_at IS NULL AND actions.instance_id = instances.id)
    AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.instance_id = instances.id AND inbox.state = 'in_doubt'))`;
}

/** All in one write, or nothing. An operator may have moved one since it was looked at: what is not over any more stays. */
async function remove(env: EngineEnv, candidates: readonly string[], over: Statement, keepMs: number): Promise<number> {
  if (candidates.length === 0) return 0;
  const ids = sql`(SELECT value FROM json_each(${JSON.stringify(candidates)}))`;
  const gone = sql`instance_id IN ${ids} AND NOT EXISTS (SELECT 1 FROM instances WHERE instances.id = instance_id)`;
  const [, , removed = []] = await batch(env.DB, [
    sql`
      INSERT INTO tombstones (id, fingerprint, pruned_day)
      SELECT unhex(id), unhex(fingerprint), unixepoch() / 86400 FROM instances WHERE id IN ${ids} AND ${over}
      ON CONFLICT (id) DO NOTHING`,
    // A command that never started and its letter are one case: they leave together.
    sql`
      DELETE FROM dead_letters WHERE state = 'open' AND captured_at <= ${now} - ${keepMs}
        AND instance_id IN (SELECT id FROM instances WHERE id IN ${ids} AND status = 'dead' AND ${over})`,
    sql`DELETE FROM instances WHERE id IN ${ids} AND ${over} RETURNING id`,
    sql`DELETE FROM inbox WHERE ${gone}`,
    sql`DELETE FROM waits WHERE ${gone}`,
    sql`DELETE FROM approvals WHERE ${gone}`,
  ]);
  return removed.length;
}
