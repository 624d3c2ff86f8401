import type { EngineEnv } from "../contract/bindings.ts";
import { codeOf, messageOf } from "../contract/errors.ts";
import { logLine } from "../contract/log-line.ts";
import { now, rowChunks, type Statement, sql } from "../contract/sql.ts";
import { deadLetter, envelopeIn, nameIn } from "../intake/letters/letter.ts";
import { countLetters } from "../observe/metrics/runs.ts";
import { aboutLetter } from "../operate/letters/settle.ts";
import { relay } from "../recorder/relay.ts";
import { removeActions, selectOldActions } from "../store/actions.ts";
import { removeResolved } from "../store/alerts.ts";
import { auditOpened } from "../store/audit-opened.ts";
import { removeEndedBulk } from "../store/bulk-actions.ts";
import { removeOldItems } from "../store/bulk-items.ts";
import { removeOldLists } from "../store/bulk-lists.ts";
import { removeCounts } from "../store/counts.ts";
import { namedBatch } from "../store/d1/named.ts";
import { atomically, query } from "../store/d1/retry.ts";
import { type DeadLetter, insertDeadLetters, removeOpenLetters, removeSettledLetters } from "../store/dead-letters.ts";
import { removeEnded } from "../store/divergences.ts";
import { removeOldFailures } from "../store/failed-deliveries.ts";
import { removeFences } from "../store/fences.ts";
import { FAILED, SETTLED } from "../store/instances/status.ts";
import { ENDED_DAYS, FAILED_DAYS, STATED_DAYS, TOMBSTONE_DAYS } from "../store/kept-days.ts";
import { insertLastWords, isStuck, MAX_PAUSE_MS, type Outgoing, removeStuck } from "../store/outbox.ts";
import { removeRuns } from "../store/schedule-runs.ts";
import { removeStreams } from "../store/sequences.ts";
import { isFree, removeFree } from "../store/signals.ts";
import { removeStatedEvents } from "../store/stated-events.ts";
import { removeExpired } from "../store/tokens.ts";
import { removeTombstones } from "../store/tombstones.ts";
import type { Catalog } from "../topology/catalog.ts";
import { pruneInstances } from "./prune-instances.ts";
import { pruneArchived, pruneObjects } from "./prune-objects.ts";
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

const LETTERS = 100;
const DAY_MS = 86_400_000;

interface OldLetter {
  id: string;
  tenantId: string | null;
  queue: string;
  messageType: string | null;
  idempotencyKey: string | null;
  correlationId: string | null;
  reason: string;
}

/**
 * Removes open dead letters after their retention time, together with the messages of the catalog's `onSkipped`. The dead letter of a
 * command that never started is removed together with the row of the command's instance. Without the dead letter, the command could not be
 * replayed. The query reads only the old rows of an index.
 */
async function forgetOpenLetters(env: EngineEnv, catalog: Catalog | undefined, keepMs: number): Promise<number> {
  const old = await query<OldLetter>(
    env.DB,
    sql`
      SELECT id, tenant_id AS tenantId, queue, message_type AS messageType, idempotency_key AS idempotencyKey,
        correlation_id AS correlationId, reason
      FROM millrace_dead_letters WHERE state = 'open' AND captured_at <= ${now} - ${keepMs}
        AND NOT EXISTS (SELECT 1 FROM millrace_instances
          WHERE millrace_instances.id = millrace_dead_letters.instance_id AND millrace_instances.status = 'dead')
      LIMIT ${LETTERS}`,
  );
  if (old.length === 0) return 0;
  const because = `No operator replayed or skipped the dead letter for ${Math.round(keepMs / DAY_MS)} days.`;
  const said = (await Promise.all(old.map((letter) => saidOf(env, catalog, letter, because)))).filter((one) => one !== undefined);
  const messages = said.flatMap(({ id, about }) => about.map((message) => ({ ...message, letter: id })));
  // A dead letter that an operator replayed or skipped meanwhile is not removed and gets no message.
  const { gone } = await namedBatch(env.DB, {
    said: rowChunks(messages).map(insertLastWords),
    gone: removeOpenLetters(said.map(({ id }) => id)),
  });
  const forgotten = new Set(gone.map(({ id }) => id));
  await relay(
    env,
    messages.filter(({ letter }) => forgotten.has(letter)),
  );
  return gone.length;
}

/**
 * Returns the messages about a removed dead letter. For a dead letter without a tenant, the function returns no messages. Returns undefined
 * when `onSkipped` fails, so that the dead letter remains.
 */
async function saidOf(
  env: EngineEnv,
  catalog: Catalog | undefined,
  letter: OldLetter,
  because: string,
): Promise<{ id: string; about: Outgoing[] } | undefined> {
  const { id, tenantId, correlationId } = letter;
  if (tenantId === null || catalog === undefined) return { id, about: [] };
  const job = nameIn({ correlation_id: correlationId }, "correlation_id");
  const known = { ...letter, tenantId, correlationId: job };
  try {
    return { id, about: await aboutLetter(env, catalog, known, { because, actor: "retention", source: "retention" }) };
  } catch (error) {
    logLine("error", { log: "retention", rule: "dead letters open", letter: id, code: codeOf(error), error: messageOf(error) });
    return undefined;
  }
}

const PAGE = 100;
/** Number of pauses between a row's early tries that are shorter than the maximum pause. */
const SHORT_PAUSES = 6;

/**
 * Messages that no queue has accepted within the retention time become dead letters. The same write removes these messages from the outbox.
 * The function measures a message's age in tries, one try per maximum pause. Messages that a queue accepted but no consumer confirmed
 * remain in the outbox, and are sent again. The query reads the whole outbox, which contains only unconfirmed messages.
 */
async function giveUpOutbox(env: EngineEnv, keepMs: number): Promise<number> {
  const tries = Math.ceil(keepMs / MAX_PAUSE_MS) + SHORT_PAUSES;
  const stuck = await query<Stuck>(
    env.DB,
    sql`SELECT id, queue, body, error, attempts, ${now} - ${keepMs} AS long_ago FROM millrace_outbox WHERE ${isStuck(tries)} LIMIT ${PAGE}`,
  );
  if (stuck.length === 0) return 0;
  // Only rows that are still in the outbox become dead letters, because a consumer may have confirmed some rows in the meantime.
  const letters = stuck.map((row) => ({ ...letterOf(row), outboxId: row.id }));
  const written = await namedBatch(env.DB, {
    letters: rowChunks(letters).map((chunk) =>
      insertDeadLetters(
        chunk,
        sql`EXISTS (SELECT 1 FROM millrace_outbox
        WHERE millrace_outbox.id = l.value->>'outboxId' AND ${isStuck(tries)})`,
      ),
    ),
    gone: removeStuck(
      stuck.map(({ id }) => id),
      tries,
    ),
  });
  countLetters(env, letters.slice(0, written.gone.length));
  logLine("error", { log: "dead_letters", queue: "outbox", captured: written.gone.length });
  return written.gone.length;
}

interface Stuck {
  id: string;
  queue: string;
  body: string;
  error: string;
  attempts: number;
  long_ago: number;
}

/** The dead letter of an outbox row. A body that is not JSON is stored as a string. */
function letterOf({ queue, body: text, error, attempts, long_ago }: Stuck): DeadLetter {
  const body = parsed(text);
  const createdAt = Date.parse(envelopeIn(body)?.created_at ?? "");
  return deadLetter({ queue, body, error, reason: "undeliverable", attempts, firstAt: Number.isNaN(createdAt) ? long_ago : createdAt });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
