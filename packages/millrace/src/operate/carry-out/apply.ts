import type { EngineEnv } from "../../contract/bindings.ts";
import { isSimulatedDeath } from "../../contract/crash-points.ts";
import { type Elsewhere, leftBy } from "../../contract/elsewhere.ts";
import { messageOf } from "../../contract/errors.ts";
import { logLine } from "../../contract/log-line.ts";
import type { Portion } from "../../contract/patience.ts";
import { among, now, type Statement, sql } from "../../contract/sql.ts";
import { beginning } from "../../contract/text.ts";
import { causeOfFailure, type Failure } from "../../pass/failure.ts";
import { giveUpActions, noteKept, putOff, takeActions } from "../../store/actions.ts";
import { atomically, query } from "../../store/d1/retry.ts";
import { giveUpRuns } from "../../store/instances/run.ts";
import { carryOut, type OpenAction } from "./carry-out.ts";

const ROWS = 50;
/**
 * Delays between tries, in ms. The platform ends a run moments after its last commit. A run that may be executing an inline step is ended 2
 * s after the operator's action.
 */
const SOON_MS = [0, 50, 100, 200, 400, 800, 600];

type Tried = { action: OpenAction; failed: string | null; soon: boolean };

/** Carries out one open action directly after its commit. After a failure the keeper repeats it. */
export async function applyAction(env: EngineEnv, id: string): Promise<void> {
  if ((await query(env.DB, takeActions(sql`a.id = ${id}`, leftBy(undefined)))).length === 0) return;
  for (const pauseMs of SOON_MS) {
    if (pauseMs > 0) await scheduler.wait(pauseMs);
    const [action] = await query<OpenAction>(env.DB, selectOpen(sql`a.id = ${id}`));
    if (!action) return;
    const tried = await tryToKeep(env, action);
    if (tried.soon && pauseMs !== SOON_MS.at(-1)) continue;
    return noteTried(env, [tried]);
  }
}

/** Carries out actions that a crash or a platform error left open. Each has its own delay, so that a failing action delays no other. */
export async function applyOpenActions(env: EngineEnv, { workflows }: Elsewhere): Promise<Portion> {
  const taken = await query<{ id: string }>(env.DB, takeActions(sql`a.due_at <= ${now} ORDER BY a.due_at LIMIT ${ROWS}`, workflows));
  if (taken.length === 0) return { did: 0, more: false };
  const actions = await query<OpenAction>(env.DB, selectOpen(sql`a.id IN ${among(taken.map(({ id }) => id))}`));
  const tried = await Promise.all(actions.map((action) => tryToKeep(env, action)));
  await noteTried(env, tried);
  return { did: tried.filter(({ failed }) => failed === null).length, more: taken.length === ROWS };
}

function selectOpen(which: Statement): Statement {
  return sql`
    SELECT a.id, a.verb, a.actor, a.reason, a.target, a.at, a.attempts, a.instance_id, a.detail->>'from' AS from_step,
      a.detail->>'run' AS begun_run,
      a.detail->>'undone' AS undone, a.detail->>'stopped' AS stopped, a.restarted_at AS begun_at,
      i.run, i.status, i.workflow, i.queue, i.envelope, i.undo
    FROM millrace_actions a CROSS JOIN millrace_instances i ON i.id = a.instance_id
    WHERE a.applied_at IS NULL AND ${which}`;
}

async function tryToKeep(env: EngineEnv, action: OpenAction): Promise<Tried> {
  try {
    const soon = (await carryOut(env, action)) === "not yet";
    return { action, failed: soon ? "The platform has not yet ended the failed run." : null, soon };
  } catch (error) {
    if (isSimulatedDeath(error)) throw error;
    const { id, instance_id, verb } = action;
    logLine("warn", { log: "action", action_id: id, instance_id, verb, error: messageOf(error) });
    return { action, failed: beginning(messageOf(error), 500), soon: false };
  }
}

async function noteTried(env: EngineEnv, tried: readonly Tried[]): Promise<void> {
  if (tried.length === 0) return;
  const kept = tried.filter(({ failed }) => failed === null).map(({ action }) => action.id);
  const open = tried.filter(({ failed }) => failed !== null);
  const failures = open.map(({ action, failed, soon }) => {
    const message = `The recorded action ${action.verb} could not be carried out: ${failed}`;
    const failure: Failure = { step: "", code: "unavailable", message, attempts: 0 };
    const cause = causeOfFailure(action.workflow, failure);
    return { id: action.id, soon, instance: action.instance_id, run: action.begun_run, why: failed, failure, cause };
  });
  await atomically(env.DB, [noteKept(kept), ...(open.length > 0 ? [putOff(failures), giveUpActions(failures), giveUpRuns(failures)] : [])]);
}
