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
import { FAILED, SETTLED } from "../store/instances/status.ts";
import { ENDED_DAYS, FAILED_DAYS, STATED_DAYS, TOMBSTONE_DAYS } from "../store/kept-days.ts";
import { removeRuns } from "../store/schedule-runs.ts";
import { removeStreams } from "../store/sequences.ts";
import { isFree, removeFree } from "../store/signals.ts";
import { removeStatedEvents } from "../store/stated-events.ts";
import { removeExpired } from "../store/tokens.ts";
import { removeTombstones } from "../store/tombstones.ts";
import type { Catalog } from "../topology/catalog.ts";
import { forgetOpenLetters } from "./forget-letters.ts";
import { pruneInstances } from "./prune-instances.ts";
import { pruneArchived, pruneObjects } from "./prune-objects.ts";
import { giveUpOutbox } from "./prune-outbox.ts";
import type { Retention, Slice } from "./sweep.ts";

/** Retention of open dead letters. */
export const OPEN_LETTER_DAYS = 90;
/** Maximum number of rows that one slice removes. */
const ROWS = 250;
/** Numbers of rows that one slice of a scan reads. Rows of hashes are small. */
const SIGNALS_WALKED = 1000;
const HASHES_WALKED = 5000;

/**
 * The engine's retention rules. All data except instances in progress (accepted, queued, running, waiting or in doubt) has a maximum age.
 * After the removal of an instance and its tombstone, a message with the same key would start a new instance. By that time, no queue or
 * outbox can still contain such a message. The catalog's `onSkipped` provides messages about removed open dead letters. See
 * docs/retention.md, which a test compares with this table.
 */
export const engineRetention = (catalog?: Catalog): readonly Retention[] => [
  // A queue keeps a message for at most 14 days, and the dead-letter queue keeps the message for at most 14 further days.
  rule({ name: "instances ended", keepDays: ENDED_DAYS, prune: pruneInstances(SETTLED) }),
  rule({ name: "instances failed", keepDays: FAILED_DAYS, prune: pruneInstances(FAILED) }),
  // An archived instance is kept as long as its tombstone.
  rule({ name: "archived instances", keepDays: TOMBSTONE_DAYS, everyHours: 24 * 7, prune: pruneArchived }),
  rule({ name: "outbox", keepDays: 14, prune: giveUpOutbox }),
  rule({ name: "dead letters settled", keepDays: 30, prune: slices(removeSettledLetters) }),
  rule({ name: "dead letters open", keepDays: OPEN_LETTER_DAYS, prune: (env, keepMs) => forgetOpenLetters(env, catalog, keepMs) }),
  // A sender with its own outbox keeps messages, and may send a message again. Tombstones remain for a longer time than such senders keep
  // messages. The retention of a tombstone starts when the retention of the instance ends, after 30 days.
  rule({ name: "tombstones", keepDays: TOMBSTONE_DAYS, everyHours: 24 * 7, prune: pruneTombstones }),
  // The record of an event's key is kept as long as an instance and its tombstone together. Therefore repeats of events are detected for
  // the same time as repeats of commands.
  rule({ name: "stated events", keepDays: STATED_DAYS, everyHours: 24 * 7, prune: pruneStated }),
  // After the removal of a stream, the sender's next message counts as a gap.
  rule({ name: "streams", keepDays: 400, everyHours: 24 * 7, prune: pruneStreams }),
  // Rates need the counts per minute of the last day. A workflow's monthly cost needs the counts per hour of the last month.
  rule({ name: "counts of minutes", keepDays: 2, prune: slices((keepMs, limit) => removeCounts("minute", keepMs, limit)) }),
  rule({ name: "counts of hours", keepDays: 35, prune: slices((keepMs, limit) => removeCounts("hour", keepMs, limit)) }),
  // Each of the following rules reads a whole table or lists a whole bucket, because an index would cost more than one scan a day.
  rule({ name: "signals", keepDays: 30, everyHours: 24, prune: pruneSignals }),
  rule({ name: "actions", keepDays: 400, everyHours: 24, prune: pruneActions }),
  rule({ name: "bulk actions ended", keepDays: 90, everyHours: 24, prune: pruneBulkActions }),
  rule({ name: "schedule runs", keepDays: 90, everyHours: 24, prune: slices(removeRuns) }),
  rule({ name: "tokens expired", keepDays: 30, everyHours: 24, prune: slices(removeExpired) }),
  rule({ name: "alerts resolved", keepDays: 30, everyHours: 24, prune: slices(removeResolved) }),
  rule({ name: "fences of locks", keepDays: 30, everyHours: 24, prune: slices(removeFences) }),
  // Records of failed deliveries are kept as long as a queue keeps its messages.
  rule({ name: "failed deliveries", keepDays: 14, everyHours: 24, prune: slices(removeOldFailures) }),
  rule({ name: "divergences ended", keepDays: 30, everyHours: 24, prune: slices(removeEnded) }),
  rule({ name: "payloads and outputs", keepDays: 45, everyHours: 24, prune: pruneObjects }),
];

function rule(
  own: Omit<Retention, "prune"> & { prune: (env: EngineEnv, keepMs: number, from: string | null) => Promise<number | Slice> },
): Retention {
  return { ...own, prune: (env, keepMs, from) => own.prune(env as unknown as EngineEnv, keepMs, from) };
}

/** Removes one slice of old rows by one statement. Returns the number of removed rows. */
function slices(remove: (keepMs: number, limit: number) => Statement): (env: EngineEnv, keepMs: number) => Promise<number> {
  return async (env, keepMs) => (await query(env.DB, remove(keepMs, ROWS))).length;
}

type Prune = (env: EngineEnv, keepMs: number, from: string | null) => Promise<Slice>;

/**
 * Removes the old rows of a table whose primary key is a hash. The scan follows the primary key. An index by time would make each such
 * table 50 % larger.
 */
function byHash(walk: (from: string) => Statement, remove: (range: { from: string; last: string }, keepMs: number) => Statement): Prune {
  return async (env, keepMs, from) => {
    const [walked] = await query<{ last: string; count: number }>(env.DB, walk(from ?? ""));
    if (!walked?.count) return { removed: 0, next: null };
    const gone = await query(env.DB, remove({ from: from ?? "", last: walked.last }, keepMs));
    return { removed: gone.length, next: walked.count === HASHES_WALKED ? walked.last : null };
  };
}

const pruneTombstones = byHash(
  (from) => sql`
    SELECT lower(hex(max(id))) AS last, count(*) AS count
    FROM (SELECT id FROM millrace_tombstones WHERE id > unhex(${from}) ORDER BY id LIMIT ${HASHES_WALKED})`,
  removeTombstones,
);

/** Removes old keys of events from outside. */
const pruneStated = byHash(
  (from) => sql`
    SELECT lower(hex(max(id))) AS last, count(*) AS count
    FROM (SELECT id FROM millrace_stated_events WHERE id > unhex(${from}) ORDER BY id LIMIT ${HASHES_WALKED})`,
  removeStatedEvents,
);

/** Removes streams of numbered messages that have had no message for the retention time. */
const pruneStreams = byHash(
  (from) => sql`
    SELECT lower(hex(max(id))) AS last, count(*) AS count
    FROM (SELECT id FROM millrace_sequences WHERE id > unhex(${from}) ORDER BY id LIMIT ${HASHES_WALKED})`,
  removeStreams,
);

/** Removes old actions. The table of actions is opened for removal only if old actions exist, because opening the table is a write. */
async function pruneActions(env: EngineEnv, keepMs: number): Promise<number> {
  const old = await query<{ id: string }>(env.DB, selectOldActions(keepMs, ROWS));
  if (old.length > 0) await atomically(env.DB, auditOpened([removeActions(old.map(({ id }) => id))]));
  return old.length;
}

/** Removes bulk actions that ended long ago: first the results of their items, then their lists, then their rows. */
async function pruneBulkActions(env: EngineEnv, keepMs: number): Promise<number> {
  for (const remove of [removeOldItems, removeOldLists, removeEndedBulk]) {
    const gone = await query(env.DB, remove(keepMs, ROWS));
    if (gone.length > 0) return gone.length;
  }
  return 0;
}

/** Removes events that are too old for any wait. Each slice is short. The whole table is scanned once a day. */
async function pruneSignals(env: EngineEnv, keepMs: number, from: string | null): Promise<Slice> {
  const walked = await query<{ id: string; free: number }>(
    env.DB,
    sql`SELECT id, (${isFree(keepMs)}) AS free FROM millrace_signals WHERE id > ${from ?? ""} ORDER BY id LIMIT ${SIGNALS_WALKED}`,
  );
  const free = walked.filter((row) => row.free === 1).map(({ id }) => id);
  const gone = free.length === 0 ? [] : await query(env.DB, removeFree(free, keepMs));
  return { removed: gone.length, next: walked.length === SIGNALS_WALKED ? (walked.at(-1)?.id ?? null) : null };
}
