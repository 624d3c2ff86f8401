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
import type { Slice } from "./sweep.ts";

/**
 * Maximum number of instances that one slice scans and removes. Together with the instances' inbox entries, a slice writes a few thousand
 * rows.
 */
const ROWS = 250;

interface Walked {
  place: number;
  id: string;
  young: number;
  over: number;
}

/**
 * Removes old instances with the given statuses, with their entries, waits and approvals. Each removed instance leaves a tombstone, so that
 * its key never runs again, even after a skip. Rows are numbered in the order of acceptance. The scan goes from the oldest row to the first
 * young row, without an index. The scan reads only rows that are removed, and older rows that are still in progress.
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

/** Removes instances in one atomic write. An instance that an operator has reopened since the scan remains. */
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
