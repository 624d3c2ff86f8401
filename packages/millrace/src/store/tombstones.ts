import { among, type Fragment, type Statement, sql } from "../contract/sql.ts";
import { isOver, type Old } from "./instances/remove.ts";

/** The condition that a pruned instance had the given id. The id may be an SQL expression. */
export function isPruned(id: string | Fragment): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_tombstones WHERE millrace_tombstones.id = unhex(${id}))`;
}

/** Writes a tombstone for each instance that is about to be removed, so that the instance's key starts no other instance. */
export function bury(ids: readonly string[], old: Old): Statement {
  return sql`
    INSERT INTO millrace_tombstones (id, fingerprint, pruned_day)
    SELECT unhex(id), unhex(fingerprint), unixepoch() / 86400 FROM millrace_instances WHERE id IN ${among(ids)} AND ${isOver(old)}
    ON CONFLICT (id) DO NOTHING`;
}

/** Removes old tombstones, within a range of ids (hex). The statement returns a row for each removed row. */
export function removeTombstones({ from, last }: { from: string; last: string }, keepDays: number): Statement {
  return sql`
    DELETE FROM millrace_tombstones
    WHERE id > unhex(${from}) AND id <= unhex(${last}) AND pruned_day < unixepoch() / 86400 - ${keepDays}
    RETURNING 1 AS gone`;
}

/** Selects the tombstones of these ids, each with the day of pruning as a count of days since 1970. */
export function selectPruned(ids: readonly string[]): Statement {
  return sql`
    SELECT lower(hex(id)) AS id, lower(hex(fingerprint)) AS fingerprint, pruned_day FROM millrace_tombstones
    WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)}))`;
}
