import type { EngineEnv } from "../contract/bindings.ts";
import { type Statement, sql } from "../contract/sql.ts";
import { removeActions, selectOldActions } from "../store/actions.ts";
import { removeResolved } from "../store/alerts.ts";
import { auditOpened } from "../store/audit-opened.ts";
import { removeEndedBulk } from "../store/bulk-actions.ts";
import { removeOldItems } from "../store/bulk-items.ts";
import { removeOldLists } from "../store/bulk-lists.ts";
import { removeCounts } from "../store/counts.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { removeSettledLetters } from "../store/dead-letters.ts";
import { removeEnded } from "../store/divergences.ts";
import { removeOldFailures } from "../store/failed-deliveries.ts";
import { removeFences } from "../store/fences.ts";
import { removeRuns } from "../store/schedule-runs.ts";
import { isFree, removeFree } from "../store/signals.ts";
import { removeExpired } from "../store/tokens.ts";
import type { Slice } from "./rule.ts";

const ROWS = 250;
const SIGNALS_WALKED = 1000;

/** Removes one slice of old rows by one statement. Returns the number of removed rows. */
function slices(remove: (keepMs: number, limit: number) => Statement): (env: EngineEnv, keepMs: number) => Promise<number> {
  return async (env, keepMs) => (await query(env.DB, remove(keepMs, ROWS))).length;
}

export const pruneSettledLetters = slices(removeSettledLetters);
export const pruneAlerts = slices(removeResolved);
export const pruneTokens = slices(removeExpired);
export const pruneDivergences = slices(removeEnded);
export const pruneFailures = slices(removeOldFailures);
export const pruneFences = slices(removeFences);
export const pruneMinutes = slices((keepMs, limit) => removeCounts("minute", keepMs, limit));
export const pruneHours = slices((keepMs, limit) => removeCounts("hour", keepMs, limit));
export const pruneScheduleRuns = slices(removeRuns);

/** Removes old actions. The table of actions is opened for removal only if old actions exist, because opening the table is a write. */
export async function pruneActions(env: EngineEnv, keepMs: number): Promise<number> {
  const old = await query<{ id: string }>(env.DB, selectOldActions(keepMs, ROWS));
  if (old.length > 0) await atomically(env.DB, auditOpened([removeActions(old.map(({ id }) => id))]));
  return old.length;
}

/** Removes bulk actions that ended long ago: first the results of their items, then their lists, then their rows. */
export async function pruneBulkActions(env: EngineEnv, keepMs: number): Promise<number> {
  for (const remove of [removeOldItems, removeOldLists, removeEndedBulk]) {
    const gone = await query(env.DB, remove(keepMs, ROWS));
    if (gone.length > 0) return gone.length;
  }
  return 0;
}

/** Removes events that are too old for any wait. Each slice is short. The whole table is scanned once a day. */
export async function pruneSignals(env: EngineEnv, keepMs: number, from: string | null): Promise<Slice> {
  const walked = await query<{ id: string; free: number }>(
    env.DB,
    sql`SELECT id, (${isFree(keepMs)}) AS free FROM millrace_signals WHERE id > ${from ?? ""} ORDER BY id LIMIT ${SIGNALS_WALKED}`,
  );
  const free = walked.filter((row) => row.free === 1).map(({ id }) => id);
  const gone = free.length === 0 ? [] : await query(env.DB, removeFree(free, keepMs));
  return { removed: gone.length, next: walked.length === SIGNALS_WALKED ? (walked.at(-1)?.id ?? null) : null };
}
