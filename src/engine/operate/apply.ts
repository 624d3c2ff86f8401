import { type EngineEnv, workflowBinding } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { now, sql } from "../contract/sql.ts";
import { doubtEventType } from "../guard/doubt.ts";
import { startInstances } from "../intake/start.ts";
import { batch, query } from "../store/retry.ts";

interface OpenAction {
  id: string;
  verb: string;
  target: string;
  instance_id: string;
  from_step: string | null;
  workflow: string;
  envelope: string;
}

/** Carries out on the platform what operators were promised: at once after the action, and by the keeper for what a crash left open. Safe to repeat. */
export async function applyOpenActions(env: EngineEnv, only?: string): Promise<number> {
  const actions = await query<OpenAction>(
    env.DB,
    sql`
      SELECT a.id, a.verb, a.target, a.instance_id, a.detail->>'from' AS from_step, i.workflow, i.envelope
      FROM actions a JOIN instances i ON i.id = a.instance_id
      WHERE a.applied_at IS NULL AND (${only ?? null} IS NULL OR a.id = ${only ?? null}) ORDER BY a.at LIMIT 50`,
  );
  for (const action of actions) {
    await (action.verb === "retry" ? restart(env, action) : answerDoubt(env, action));
    await batch(env.DB, [sql`UPDATE actions SET applied_at = ${now} WHERE id = ${action.id}`]);
  }
  return actions.length;
}

/** Runs an instance again from the step that failed. One the platform has forgotten is created anew: its inbox answers for what is done. */
async function restart(env: EngineEnv, action: OpenAction): Promise<void> {
  const instance = await workflowBinding(env, action.workflow)
    .get(action.instance_id)
    .catch(() => undefined);
  const status = (await instance?.status().catch(() => undefined))?.status ?? "unknown";
  if (status === "unknown" || !instance) {
    await startInstances(env, [{ id: action.instance_id, workflow: action.workflow, envelope: JSON.parse(action.envelope) as Envelope }]);
  } else if (status === "errored" || status === "terminated" || status === "complete") {
    // A step the platform does not remember (it failed before its first attempt) cannot be restarted from: the beginning can, and guarded steps answer from the inbox.
    const restarted = action.from_step
      ? instance.restart({ from: { name: action.from_step } }).catch(() => instance.restart())
      : instance.restart();
    await restarted;
  }
}

/** Wakes the instance that waits for a doubt to be resolved. */
async function answerDoubt(env: EngineEnv, action: OpenAction): Promise<void> {
  const instance = await workflowBinding(env, action.workflow).get(action.instance_id);
  await instance.sendEvent({ type: doubtEventType(action.target), payload: { resolved: action.verb } }).catch((error) => {
    // An instance that is not waiting (it errored meanwhile) reads the answer from the inbox when it is retried.
    console.warn(JSON.stringify({ log: "doubt", instance_id: action.instance_id, error: String(error) }));
  });
}
