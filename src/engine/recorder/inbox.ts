import type { EntryKey } from "../contract/ids.ts";
import { CONFIRM_WITHIN_MS, KEEPER_PATIENCE_MS } from "../contract/patience.ts";
import { fragment, now, type RowStatement, type Statement, sql } from "../contract/sql.ts";
import type { Attempt, Outgoing } from "./entry.ts";

const SEEN = fragment(`step, item, generation, position, after, caught, state, epoch, token, repeats, undoable,
    lease_until - ${now.fragment} AS lease_left_ms, output_ref, error`);

/** An entry of which a person has said what became of its effect. */
export interface ResolvedEntry {
  step: string;
  item: string;
  generation: number;
  state: string;
}

/** What people have said of an instance's effects, as far as no attempt has taken the entry since. */
export function selectResolved(instanceId: string): Statement {
  return sql`SELECT step, item, generation, state FROM inbox WHERE instance_id = ${instanceId} AND token = 'operator'`;
}

/** All entries of an instance, newest generation last, without their outputs. */
export function selectEntries(instanceId: string): Statement {
  return sql`
    SELECT ${SEEN}, updated_at
    FROM inbox WHERE instance_id = ${instanceId} ORDER BY generation`;
}

/** What one entry put out. */
export function selectOutput({ instanceId, step, item, generation }: EntryKey): Statement {
  return sql`
    SELECT output
    FROM inbox WHERE instance_id = ${instanceId} AND step = ${step} AND item = ${item} AND generation = ${generation}`;
}

/** The truth about one key: its newest generation, from this one on. One before says nothing of it: what is done again was done then too. */
export function selectEntry({ instanceId, step, item, generation }: EntryKey): Statement {
  return sql`
    SELECT ${SEEN}, output
    FROM inbox WHERE instance_id = ${instanceId} AND step = ${step} AND item = ${item} AND generation >= ${generation}
    ORDER BY generation DESC LIMIT 1`;
}

/**
 * Takes a key before its effect runs: a fresh one, one whose effect certainly did not happen, or one whose claim ran out.
 * In the last case the upstream may have been reached: a `lookup` effect remembers to ask it (`repeats`), a `once`
 * effect goes into doubt, because the machine never repeats it. Every takeover grows the epoch. A repeat of the same
 * call changes nothing, because its token already holds the row. Refused, like `recordOutcome`, when the pass is not alone.
 */
export function claim(attempt: Attempt, leaseMs: number, input: string | null): Statement {
  const { key } = attempt;
  return sql`
    INSERT INTO inbox (instance_id, step, item, generation, position, after, caught, class, state, epoch, token, lease_until, input,
      undoable, updated_at)
    VALUES (${key.instanceId}, ${key.step}, ${key.item}, ${key.generation}, ${attempt.position}, ${attempt.after}, ${attempt.caught},
      ${attempt.class},
      iif(EXISTS (SELECT 1 FROM inbox other
        WHERE other.instance_id = ${key.instanceId} AND substr(other.token, 1, 8) <> ${attempt.aloneAs}), NULL, 'claimed'),
      1, ${attempt.token}, ${now} + ${leaseMs}, ${input}, ${attempt.undoable ? 1 : 0}, ${now})
    ON CONFLICT (instance_id, step, item, generation) DO UPDATE SET
      state = iif(inbox.state = 'claimed' AND inbox.class = 'once', 'in_doubt', 'claimed'),
      repeats = max(inbox.repeats, inbox.state = 'claimed'),
      position = excluded.position, after = excluded.after, caught = excluded.caught, error = NULL,
      input = iif(inbox.state = 'claimed' AND inbox.class = 'once', inbox.input, excluded.input),
      epoch = inbox.epoch + 1, token = excluded.token, lease_until = excluded.lease_until, updated_at = excluded.updated_at
    WHERE inbox.state = 'failed' OR (inbox.state = 'claimed' AND inbox.lease_until <= ${now} AND inbox.token <> excluded.token)`;
}

/** Keeps a claim alive while its effect is still under way. Answers a row only to the holder. */
export function extendLease(attempt: Attempt, leaseMs: number): Statement {
  const { key } = attempt;
  return sql`
    UPDATE inbox SET lease_until = ${now} + ${leaseMs}
    WHERE instance_id = ${key.instanceId} AND step = ${key.step} AND item = ${key.item} AND generation = ${key.generation}
      AND token = ${attempt.token} AND epoch = ${attempt.epoch} AND state = 'claimed'
    RETURNING 1`;
}

/**
 * How a claim, or an output that a person gave, ends without an outcome: `failed` (nothing happened), `in_doubt` (nobody knows), or
 * `expired` (unknown; the next attempt asks the upstream).
 */
export function giveUpClaim(attempt: Attempt, ending: "failed" | "in_doubt" | "expired", error: string): Statement {
  const { key } = attempt;
  return sql`
    UPDATE inbox SET state = iif(${ending} = 'expired', state, ${ending}), lease_until = ${now}, error = ${error}, updated_at = ${now}
    WHERE instance_id = ${key.instanceId} AND step = ${key.step} AND item = ${key.item} AND generation = ${key.generation}
      AND token = ${attempt.token} AND epoch = ${attempt.epoch}
      AND (state = 'claimed' OR (state = 'confirmed' AND ${ending} = 'in_doubt'))`;
}

/**
 * The platform has given a commit up, and its code goes on without: whatever still writes it, with the epoch it has, comes too late. One
 * that is written stays.
 */
export function fenceCommit({ key, position, after, caught, token, undoable }: Attempt): Statement {
  return sql`
    INSERT INTO inbox (instance_id, step, item, generation, position, after, caught, class, state, epoch, token, undoable, updated_at)
    VALUES (${key.instanceId}, ${key.step}, ${key.item}, ${key.generation}, ${position}, ${after}, ${caught}, 'commit', 'failed', 2,
      ${token}, ${undoable ? 1 : 0}, ${now})
    ON CONFLICT (instance_id, step, item, generation) DO UPDATE SET epoch = inbox.epoch + 1, updated_at = excluded.updated_at
    WHERE inbox.state <> 'done'`;
}

/**
 * Records an outcome. The one fence of every class: a fresh key is inserted; a claimed, confirmed or doubted one moves to done only for the
 * holder of its token and epoch; one that is free again, or was claimed by a `lookup` before a deployment made it another class, for the
 * first who records; in every other case `state` becomes NULL, which its NOT NULL refuses, and the whole batch (the app's statements and
 * the messages with it) is undone. The same refusal meets a pass that believes to be the first and finds what another pass has written: it
 * must look first. So a repeat of an ambiguous commit is safe too: it is refused, and reading the row back shows our own token.
 */
export function recordOutcome(attempt: Attempt, outcome: Recorded): RowStatement {
  const messages = outcome.messages.length > 0 ? copies(outcome.messages) : null;
  const { key, position, after, caught, aloneAs, class: effectClass, epoch, token } = attempt;
  const { output, outputRef, error } = outcome;
  return {
    text: RECORD,
    row: {
      ...key,
      position,
      after,
      caught,
      aloneAs,
      class: effectClass,
      epoch,
      token,
      output,
      outputRef,
      messages,
      error,
      undoable: attempt.undoable ? 1 : 0,
    },
  };
}

/**
 * Characters of the messages that an entry keeps a copy of, for people to read; of larger ones it keeps the envelopes, as many as that
 * takes. The outbox holds each whole.
 */
const MAX_COPIED_CHARACTERS = 250_000;

function copies(messages: readonly Outgoing[]): string {
  const bodies = messages.map(({ body }) => body);
  const small = bodies.reduce((sum, body) => sum + body.length, 0) <= MAX_COPIED_CHARACTERS;
  if (small) return `[${bodies.join(",")}]`;
  const envelopes = bodies.map(withoutPayload);
  const most = Math.max(...envelopes.map(({ length }) => length));
  return `[${envelopes.slice(0, Math.floor(MAX_COPIED_CHARACTERS / most)).join(",")}]`;
}

function withoutPayload(body: string): string {
  const { payload_inline: _, ...envelope } = JSON.parse(body) as Record<string, unknown>;
  return JSON.stringify(envelope);
}

/** An outcome as its row keeps it. */
interface Recorded {
  output: string | null;
  outputRef: string | null;
  messages: readonly Outgoing[];
  error: string | null;
}

const RECORD = `
  INSERT INTO inbox (instance_id, step, item, generation, position, after, caught, class, state, epoch, token, output, output_ref,
    messages, error, undoable, updated_at)
  SELECT r.value->>'instanceId', r.value->>'step', r.value->>'item', r.value->>'generation', r.value->>'position', r.value->>'after',
    r.value->>'caught', r.value->>'class',
    iif(EXISTS (SELECT 1 FROM inbox other
      WHERE other.instance_id = r.value->>'instanceId' AND substr(other.token, 1, 8) <> r.value->>'aloneAs'), NULL, 'done'),
    r.value->>'epoch', r.value->>'token', r.value->>'output', r.value->>'outputRef', r.value->>'messages', r.value->>'error',
    r.value->>'undoable', ${now.fragment}
  FROM json_each(?1) r WHERE true
  ON CONFLICT (instance_id, step, item, generation) DO UPDATE SET
    state = CASE
      WHEN inbox.state IN ('claimed', 'confirmed', 'in_doubt') AND inbox.token = excluded.token AND inbox.epoch = excluded.epoch THEN 'done'
      WHEN excluded.class IN ('commit', 'keyed', 'natural') AND (excluded.class <> 'commit' OR inbox.epoch <= excluded.epoch)
        AND (inbox.state = 'failed' OR (inbox.state = 'claimed' AND inbox.class = 'lookup' AND inbox.lease_until <= ${now.fragment}))
      THEN 'done' END,
    class = excluded.class, position = excluded.position, after = excluded.after, caught = excluded.caught,
    token = excluded.token, output = excluded.output, output_ref = excluded.output_ref, messages = excluded.messages,
    error = excluded.error, undoable = excluded.undoable, lease_until = NULL, updated_at = excluded.updated_at`;

/** Whose attempt wrote an entry that was superseded because its effect was taken back. */
export const UNDONE = "undone";

/** An effect was taken back: its output stays to be read, and is nobody's any more. */
export function takenBack({ instanceId, step, item, generation }: EntryKey): Statement {
  return sql`
    UPDATE inbox SET state = 'superseded', token = ${UNDONE}, epoch = epoch + 1, updated_at = ${now}
    WHERE instance_id = ${instanceId} AND step = ${step} AND item = ${item} AND generation = ${generation} AND state = 'done'`;
}

/** The same effect once more, under a new key: free to be claimed. */
export function nextGeneration({ instanceId, step, item, generation }: EntryKey): Statement {
  return sql`
    INSERT INTO inbox (instance_id, step, item, generation, position, class, state, epoch, token, input, undoable, updated_at)
    SELECT instance_id, step, item, generation + 1, position, class, 'failed', 1, 'operator', input, undoable, ${now}
    FROM inbox WHERE instance_id = ${instanceId} AND step = ${step} AND item = ${item} AND generation = ${generation}
      AND state = 'superseded'
    ON CONFLICT DO NOTHING`;
}

/** Keeps a message until its consumer confirms it. */
export function insertOutgoing({ id, queue, body, delaySeconds }: Outgoing): RowStatement {
  return { text: INSERT_OUTGOING, row: { id, queue, body, delaySeconds } };
}

const INSERT_OUTGOING = `
  INSERT INTO outbox (id, queue, body, delay_s, due_at)
  SELECT value->>'id', value->>'queue', value->>'body', value->>'delaySeconds',
    ${now.fragment} + (value->>'delaySeconds') * 1000 + ${CONFIRM_WITHIN_MS}
  FROM json_each(?1) WHERE true
  ON CONFLICT (id) DO NOTHING`;

/**
 * The instance is at work (again). One in doubt stays so, whatever its other steps do: only the operator's answer ends that. One that
 * was believed dead, because its message was exhausted, lives. What wakes up is looked at soon: while it slept, nobody came by.
 */
export function markRunning(id: string): RowStatement {
  return { text: MARK_RUNNING, row: { id } };
}

const MARK_RUNNING = `
  UPDATE instances SET status = 'running', updated_at = ${now.fragment}
  WHERE id IN (SELECT value->>'id' FROM json_each(?1)) AND status IN ('accepted', 'queued')`;

/**
 * The same for one that waited, or was believed dead or over; also where an operator gave its message up while it was being started: the row
 * says what happens. A statement of its own: a changed time of the next look is one written row more.
 */
export function markAwake(id: string): RowStatement {
  return { text: MARK_AWAKE, row: { id } };
}

const MARK_AWAKE = `
  UPDATE instances SET status = 'running', error = NULL, updated_at = ${now.fragment}, seen = 1,
    check_at = ${now.fragment} + ${KEEPER_PATIENCE_MS}
  WHERE id IN (SELECT value->>'id' FROM json_each(?1)) AND status IN ('waiting', 'dead', 'skipped', 'errored')`;

/** How a run of an instance ended. */
export interface End {
  readonly id: string;
  /** Which of the instance's runs: an operator's retry or undo begins the next one. */
  readonly run: number;
  readonly status: "complete" | "errored" | "terminated";
  /** Why, as JSON; null unless it errored. */
  readonly error: string | null;
  /** What it leaves to the next run (see `LeftBehind`), as JSON; nothing where nobody knows, and what it was told itself still holds. */
  readonly left?: string | null;
}

/**
 * A run ended. Told by any run but the present one, it is no news: an operator has begun another since. Within a run what succeeded
 * replaces what failed (a pass that was given up may be followed by one that went through), never the other way. The keeper looks once more
 * at what errored.
 */
export function finishInstance(end: End): RowStatement {
  return { text: FINISH, row: { ...end } };
}

const FINISH = `
  UPDATE instances SET status = r.value->>'status', error = r.value->>'error', caught = coalesce(r.value->>'left', caught),
    updated_at = ${now.fragment}, seen = 1,
    check_at = iif(r.value->>'status' = 'errored', ${now.fragment} + ${KEEPER_PATIENCE_MS}, NULL)
  FROM json_each(?1) r
  WHERE instances.id = r.value->>'id' AND instances.run = r.value->>'run'
    AND (r.value->>'status' <> 'errored' OR NOT EXISTS (SELECT 1 FROM json_each(?1) other
      WHERE other.value->>'id' = r.value->>'id' AND other.value->>'run' = r.value->>'run' AND other.value->>'status' <> 'errored'))
    AND (instances.status IN ('accepted', 'queued', 'running', 'waiting', 'paused', 'in_doubt', 'dead', 'skipped')
      OR (instances.status = 'errored' AND r.value->>'status' <> 'errored'))
    AND (instances.undo IS NULL OR r.value->>'status' <> 'complete')`;

/** Which run an instance is in, which action has had it undone, and whether it is complete, asked for many instances at once: each row says whose it is. */
export function selectRun(id: string): RowStatement {
  return { text: SELECT_RUN, row: { id } };
}

const SELECT_RUN = `
  SELECT id, run, undo, status = 'complete' AS complete FROM instances WHERE id IN (SELECT value->>'id' FROM json_each(?1))`;

/** True for the refusal that `claim` and `recordOutcome` provoke. */
export function isFenceRefusal(error: unknown): boolean {
  return error instanceof Error && error.message.includes("NOT NULL constraint failed: inbox.state");
}
