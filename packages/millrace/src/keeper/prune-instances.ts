import type { EngineEnv } from "../contract/bindings.ts";
import { now, sql } from "../contract/sql.ts";
import { removeQuestions } from "../store/approvals.ts";
import { namedBatch } from "../store/d1/named.ts";
import { query } from "../store/d1/retry.ts";
import { removeLettersOfDead } from "../store/dead-letters.ts";
import { removeEntries } from "../store/inbox/remove.ts";
import { isOver, type Old, ofGone, removeOver } from "../store/instances/remove.ts";
import { FAILED, type StatusSet } from "../store/instances/status.ts";
import { forgetArchives } from "../store/tenant-objects.ts";
import { bury, selectMovedTo } from "../store/tombstones.ts";
import { removeWaits } from "../store/waits.ts";
import { archive, archiveAfterMs, loadOf } from "./archive-instances.ts";
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
 * young row, without an index. The scan reads only rows that are removed, and older rows that are still in progress. If the deployment
 * archives instances, the rows are copied to R2 before their removal.
 */
export function pruneInstances(statuses: StatusSet): (env: EngineEnv, keepMs: number, from: string | null) => Promise<Slice> {
  return async (env, usualMs, from) => {
    const archiveMs = archiveAfterMs(env);
    // Failed instances remain for the time within which an operator can retry them.
    const keepMs = archiveMs === undefined ? usualMs : statuses === FAILED ? Math.max(archiveMs, usualMs) : archiveMs;
    const old = { statuses, keepMs };
    const walked = await query<Walked>(
      env.DB,
      sql`
        SELECT rowid AS place, id, accepted_at > ${now} - ${keepMs} AS young, ${isOver(old)} AS over
        FROM millrace_instances WHERE rowid > ${Number(from ?? Number.MIN_SAFE_INTEGER)} ORDER BY rowid LIMIT ${ROWS}`,
    );
    const over = walked.filter((row) => row.over === 1).map(({ id }) => id);
    const last = walked.at(-1);
    const next = last && !last.young && walked.length === ROWS ? String(last.place) : null;
    if (archiveMs === undefined) return { removed: (await remove(env, over, old)).size, next };
    const load = await loadOf(env, over);
    if (load.tenants.size === 0) return { removed: 0, next };
    const ids = [...load.tenants.values()].flat();
    const removed = await archive(env, load, (object) => remove(env, ids, { ...old, object }, [...load.tenants.keys()]));
    const rest = walked.find(({ id }) => id === load.rest);
    return { removed, next: rest === undefined ? next : String(rest.place - 1) };
  };
}

/**
 * Removes instances in one atomic write, with the notes of their objects. An instance that an operator has reopened since the scan remains.
 * Returns the ids of the removed instances.
 */
async function remove(env: EngineEnv, candidates: readonly string[], old: Old, noted: readonly string[] = []): Promise<Set<string>> {
  if (candidates.length === 0) return new Set();
  const { removed, moved } = await namedBatch(env.DB, {
    buried: bury(candidates, old),
    letters: removeLettersOfDead(candidates, old),
    removed: removeOver(candidates, old),
    belonging: [
      removeEntries(sql`${ofGone(candidates)}`),
      removeWaits(sql`${ofGone(candidates)}`),
      removeQuestions(sql`${ofGone(candidates)}`),
    ],
    noted: noted.length === 0 ? [] : [forgetArchives(noted)],
    // After a lost answer the batch is repeated and removes nothing. The tombstones show the instances of the first batch.
    moved: old.object === undefined ? [] : [selectMovedTo(old.object, candidates)],
  });
  return new Set((old.object === undefined ? removed : moved).map(({ id }) => String(id)));
}
