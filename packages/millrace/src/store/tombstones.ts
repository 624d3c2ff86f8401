import { among, type Fragment, fragment, now, type Statement, sql } from "../contract/sql.ts";
import { andNoted, isOver, type Old } from "./instances/remove.ts";

/** The part of a fingerprint that a tombstone stores: the first six bytes, so that a tombstone takes less than 40 bytes. */
export const STORED_CHARACTERS = 12;
const stored = (fingerprint: string | Fragment) => sql`unhex(substr(${fingerprint}, 1, ${STORED_CHARACTERS}))`;

/** True if two payloads are equal by their fingerprints. One of the fingerprints may be a tombstone's, which is the beginning. */
export function isSamePayload(one: string, other: string): boolean {
  return one.startsWith(other) || other.startsWith(one);
}

/** The condition that a pruned instance had the given id. The id may be an SQL expression. */
export function isPruned(id: string | Fragment): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_tombstones WHERE millrace_tombstones.id = unhex(${id}))`;
}

/** The condition that a pruned instance had the given id and another payload. */
export function isPrunedOther(id: string, fingerprint: string): Statement {
  return sql`EXISTS (SELECT 1 FROM millrace_tombstones WHERE id = unhex(${id}) AND fingerprint <> ${stored(fingerprint)})`;
}

/**
 * Writes a tombstone for each instance that is about to be removed, so that the instance's key starts no other instance. For archived
 * instances, the tombstone contains the number of their object.
 */
export function bury(ids: readonly string[], old: Old): Statement {
  return sql`
    INSERT INTO millrace_tombstones (id, fingerprint, place)
    SELECT unhex(id), ${stored(fragment("fingerprint"))}, ${old.object === undefined ? now : -old.object}
    FROM millrace_instances WHERE id IN ${among(ids)} AND ${isOver(old)} ${andNoted(old)}
    ON CONFLICT (id) DO UPDATE SET place = excluded.place`;
}

/** Selects the ids of these instances that are archived in this object. */
export function selectMovedTo(object: number, ids: readonly string[]): Statement {
  return sql`
    SELECT lower(hex(id)) AS id FROM millrace_tombstones
    WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)})) AND place = -${object}`;
}

/** Removes old tombstones, within a range of ids (hex). The statement returns a row for each removed row. */
export function removeTombstones({ from, last }: { from: string; last: string }, keepMs: number): Statement {
  return sql`
    DELETE FROM millrace_tombstones
    WHERE id > unhex(${from}) AND id <= unhex(${last}) AND abs(place) < ${now} - ${keepMs}
    RETURNING 1 AS gone`;
}

/** Selects the tombstones of these ids. `pruned_at` is in milliseconds; `archived` is 1 if R2 contains the instance. */
export function selectPruned(ids: readonly string[]): Statement {
  return sql`
    SELECT lower(hex(id)) AS id, lower(hex(fingerprint)) AS fingerprint, abs(place) AS pruned_at, place < 0 AS archived
    FROM millrace_tombstones
    WHERE id IN (SELECT unhex(value) FROM json_each(${JSON.stringify(ids)}))`;
}

/** Selects the number of the object that contains an archived instance. */
export function selectObjectOf(id: string): Statement {
  return sql`SELECT -place AS object FROM millrace_tombstones WHERE id = unhex(${id}) AND place < 0`;
}
