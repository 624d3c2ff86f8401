import type { EngineEnv } from "../contract/bindings.ts";
import { now, sql } from "../contract/sql.ts";
import { removeQuestions } from "../store/approvals.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import { removeLettersOfDead } from "../store/dead-letters.ts";
import { removeEntries } from "../store/inbox/remove.ts";
import { isOver, type Old, ofGone, removeOver } from "../store/instances/remove.ts";
import type { StatusSet } from "../store/instances/status.ts";
import { bury } from "../store/tombstones.ts";
import { removeWaits } from "../store/waits.ts";
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
 * Removes instances of these statuses with their entries, waits and questions, leaving a tombstone each: their keys never run again, also
 * those that were given up. Rows are numbered as they are accepted, so it walks from the oldest to the first young one and needs no index:
 * it reads what it removes and what has stayed open since before.
 */
export function pruneInstances(statuses: StatusSet): (env: EngineEnv, keepMs: number, from: string | null) => Promise<Slice> {
  return async (env, keepMs, from) => {
    const old = { statuses, keepMs };
    const walked = await query<Walked>(
      env.DB,
      sql`
        SELECT rowid AS place, id, accepted_at > ${now} - ${keepMs} AS young, ${isOver(old)} AS over
        FROM millrace_instances WHERE rowid > ${Number(from ?? Number.MIN_SAFE_INTEGER)} ORDER BY rowid LIMIT ${ROWS}`,
    );
    const removed = await remove(
      env,
      walked.filter((row) => row.over === 1).map(({ id }) => id),
      old,
    );
    const last = walked.at(-1);
    return { removed, next: last && !last.young && walked.length === ROWS ? String(last.place) : null };
  };
}

/** All in one write, or nothing. An operator may have moved one since it was looked at: what is not over any more stays. */
async function remove(env: EngineEnv, candidates: readonly string[], old: Old): Promise<number> {
  if (candidates.length === 0) return 0;
  const { removed } = await namedBatch(env.DB, {
    buried: bury(candidates, old),
    letters: removeLettersOfDead(candidates, old),
    removed: removeOver(candidates, old),
    belonging: [
      removeEntries(sql`${ofGone(candidates)}`),
      removeWaits(sql`${ofGone(candidates)}`),
      removeQuestions(sql`${ofGone(candidates)}`),
    ],
  });
  return removed.length;
}
