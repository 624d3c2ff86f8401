import type { EngineEnv } from "../contract/bindings.ts";
import { isSimulatedDeath } from "../contract/crash-points.ts";
import { messageOf } from "../contract/errors.ts";
import { KEEPER_PATIENCE_MS, type Portion } from "../contract/patience.ts";
import { fragment, now, type Statement, sql } from "../contract/sql.ts";
import { beginning } from "../contract/text.ts";
import type { Failure } from "../guard/failure.ts";
import { batch, query } from "../store/retry.ts";
import { carryOut, type OpenAction } from "./carry-out.ts";

/** Promises looked at in one portion. */
const ROWS = 50;
/** How long a promise is in the hands of whoever carries it out: longer than its calls may take together. */
const LEASE_MS = 30_000;
/** The pause after a first failed try; it doubles with each. */
const FIRST_PAUSE_MS = 5000;
/** The platform is asked so often whether it has ended a run that has told its end. */
const ENDING_PAUSE_MS = 10_000;
const MAX_PAUSE_MS = 3_600_000;
/**
 * A retry or an undo that could not be carried out for so long ends as `failed`, where people see it: its workflow was renamed, perhaps. An
 * answer to a question or a doubt never ends so, because nobody could give it again: it is tried once a day.
 */
const GIVE_UP_MS = 86_400_000;
const BEGINS_RUN = fragment("verb IN ('retry', 'undo')");
/** Pauses of the one who promised, in milliseconds: the platform ends a run some moments after the run has said so itself. */
const SOON_MS = [0, 50, 100, 200, 400, 800];

/** What came of a promise: kept, or put off with what it failed of. */
type Tried = { action: OpenAction; failed: string | null; soon: boolean };

/** Keeps one promise, at once after it was committed. What does not work now is the keeper's. */
export async function applyAction(env: EngineEnv, id: string): Promise<void> {
  if ((await take(env, sql`a.id = ${id}`)).length === 0) return;
  for (const pauseMs of SOON_MS) {
    if (pauseMs > 0) await scheduler.wait(pauseMs);
    const [action] = await query<OpenAction>(env.DB, selectOpen(sql`a.id = ${id}`));
    if (!action) return;
    const tried = await attempt(env, action);
    if (tried.soon && pauseMs !== SOON_MS.at(-1)) continue;
    return note(env, [tried]);
  }
}

/**
 * The keeper's part: promises that a crash, or the platform, left open. Each has its own patience, so that those which cannot be kept hold
 * back none of the others.
 */
export async function applyOpenActions(env: EngineEnv): Promise<Portion> {
  const ids = await take(env, sql`a.due_at <= ${now} ORDER BY a.due_at LIMIT ${ROWS}`);
  if (ids.length === 0) return { did: 0, more: false };
  const actions = await query<OpenAction>(env.DB, selectOpen(sql`a.id IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`));
  const tried = await Promise.all(actions.map((action) => attempt(env, action)));
  await note(env, tried);
  return { did: tried.filter(({ failed }) => failed === null).length, more: ids.length === ROWS };
}

/**
 * Takes promises for a while, those that nobody else has at hand: two that restart one run would break into its effects. Answers their ids.
 */
async function take(env: EngineEnv, which: Statement): Promise<string[]> {
  const taken = await query<{ id: string }>(
    env.DB,
    sql`
      UPDATE actions SET lease_until = ${now} + ${LEASE_MS}
      WHERE lease_until <= ${now} AND id IN (
        SELECT a.id FROM actions a CROSS JOIN instances i ON i.id = a.instance_id WHERE a.applied_at IS NULL AND a.lease_until <= ${now}
          AND ${which})
      RETURNING id`,
  );
  return taken.map(({ id }) => id);
}

function selectOpen(which: Statement): Statement {
  return sql`
    SELECT a.id, a.verb, a.actor, a.reason, a.target, a.at, a.attempts, a.instance_id, a.detail->>'from' AS from_step,
      a.detail->>'run' AS begun_run,
      a.detail->>'undone' AS undone, a.restarted_at,
      i.run, i.status, i.workflow, i.envelope, i.undo
    FROM actions a CROSS JOIN instances i ON i.id = a.instance_id
    WHERE a.applied_at IS NULL AND ${which}`;
}

async function attempt(env: EngineEnv, action: OpenAction): Promise<Tried> {
  try {
    const soon = (await carryOut(env, action)) === "not yet";
    return { action, failed: soon ? "The platform has not ended the run that failed yet." : null, soon };
  } catch (error) {
    if (isSimulatedDeath(error)) throw error;
    const { id, instance_id, verb } = action;
    console.warn(JSON.stringify({ log: "action", action_id: id, instance_id, verb, error: messageOf(error) }));
    return { action, failed: beginning(messageOf(error), 500), soon: false };
  }
}

async function note(env: EngineEnv, tried: readonly Tried[]): Promise<void> {
  if (tried.length === 0) return;
  const kept = tried.filter(({ failed }) => failed === null).map(({ action }) => action.id);
  const open = tried.filter(({ failed }) => failed !== null);
  const failures = JSON.stringify(
    open.map(({ action, failed, soon }) => ({
      id: action.id,
      soon,
      instance: action.instance_id,
      run: action.begun_run,
      why: failed,
      failure: {
        step: "",
        code: "unavailable",
        message: `What was promised (${action.verb}) could not be carried out: ${failed}`,
        attempts: 0,
      } satisfies Failure,
    })),
  );
  await batch(env.DB, [
    sql`
      UPDATE actions SET applied_at = ${now}, lease_until = 0, error = NULL
      WHERE id IN (SELECT value FROM json_each(${JSON.stringify(kept)})) AND applied_at IS NULL`,
    ...(open.length > 0 ? [putOff(failures), giveUp(failures), stop(failures)] : []),
  ]);
}

function putOff(failures: string): Statement {
  return sql`
    UPDATE actions SET attempts = attempts + 1, lease_until = 0, error = f.value->>'why',
      due_at = ${now} + iif(at <= ${now} - ${GIVE_UP_MS}, ${GIVE_UP_MS}, iif(f.value->>'soon', ${ENDING_PAUSE_MS},
        min(${FIRST_PAUSE_MS} * (1 << min(attempts, 10)), ${MAX_PAUSE_MS})))
    FROM json_each(${failures}) f WHERE actions.id = f.value->>'id' AND applied_at IS NULL`;
}

function giveUp(failures: string): Statement {
  return sql`
    UPDATE actions SET result = 'failed', applied_at = ${now}
    WHERE id IN (SELECT value->>'id' FROM json_each(${failures})) AND applied_at IS NULL AND at <= ${now} - ${GIVE_UP_MS}
      AND ${BEGINS_RUN}`;
}

/** The instances of retries and undos that were given up: they do not run, and their rows say so. */
function stop(failures: string): Statement {
  return sql`
    UPDATE instances SET status = 'errored', error = f.value->'failure', updated_at = ${now}, check_at = ${now} + ${KEEPER_PATIENCE_MS}
    FROM json_each(${failures}) f
    WHERE instances.id = f.value->>'instance' AND status = 'running' AND run = f.value->>'run'
      AND EXISTS (SELECT 1 FROM actions WHERE actions.id = f.value->>'id' AND result = 'failed')`;
}
