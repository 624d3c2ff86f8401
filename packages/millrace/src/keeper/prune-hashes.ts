import type { EngineEnv } from "../contract/bindings.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { query } from "../store/d1/retry.ts";
import { removeStreams } from "../store/sequences.ts";
import { removeStatedEvents } from "../store/stated-events.ts";
import { removeTombstones } from "../store/tombstones.ts";
import type { Slice } from "./rule.ts";

/** Number of rows scanned in one slice. The number is large, because the rows are small. */
const ROWS = 5000;
const DAY_MS = 86_400_000;

/**
 * The position at which a slice ended. The scan follows the primary key, which is a hash. An index by time would make each table 50 %
 * larger.
 */
interface Walked {
  last: string;
  count: number;
}

export function pruneTombstones(env: EngineEnv, keepMs: number, from: string | null): Promise<Slice> {
  return prune(env, {
    walked: sql`
      SELECT lower(hex(max(id))) AS last, count(*) AS count
      FROM (SELECT id FROM millrace_tombstones WHERE id > unhex(${from ?? ""}) ORDER BY id LIMIT ${ROWS})`,
    old: (last) => removeTombstones({ from: from ?? "", last }, keepMs / DAY_MS),
  });
}

/** Removes old keys of events from outside. */
export function pruneStated(env: EngineEnv, keepMs: number, from: string | null): Promise<Slice> {
  return prune(env, {
    walked: sql`
      SELECT lower(hex(max(id))) AS last, count(*) AS count
      FROM (SELECT id FROM millrace_stated_events WHERE id > unhex(${from ?? ""}) ORDER BY id LIMIT ${ROWS})`,
    old: (last) => removeStatedEvents({ from: from ?? "", last }, keepMs),
  });
}

/** Removes streams of numbered messages that have had no message for the retention time. */
export function pruneStreams(env: EngineEnv, keepMs: number, from: string | null): Promise<Slice> {
  return prune(env, {
    walked: sql`
      SELECT lower(hex(max(id))) AS last, count(*) AS count
      FROM (SELECT id FROM millrace_sequences WHERE id > unhex(${from ?? ""}) ORDER BY id LIMIT ${ROWS})`,
    old: (last) => removeStreams({ from: from ?? "", last }, keepMs),
  });
}

async function prune(env: EngineEnv, slice: { walked: Statement; old: (last: string) => Statement }): Promise<Slice> {
  const [walked] = await query<Walked>(env.DB, slice.walked);
  if (!walked?.count) return { removed: 0, next: null };
  const gone = await query(env.DB, slice.old(walked.last));
  return { removed: gone.length, next: walked.count === ROWS ? walked.last : null };
}
