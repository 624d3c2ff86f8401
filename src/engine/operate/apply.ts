import type { EngineEnv } from "../contract/bindings.ts";
import type { Envelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import { platformId } from "../contract/ids.ts";
import { now, sql } from "../contract/sql.ts";
import { doubtEventType } from "../guard/doubt.ts";
import { askPlatform, type PlatformAnswer } from "../intake/platform.ts";
import { startInstances } from "../intake/start.ts";
import { type Approval, answerEventType } from "../signals/approval.ts";
import { batch, query } from "../store/retry.ts";

interface OpenAction {
  id: string;
  verb: string;
  actor: string;
  reason: string;
  target: string;
  instance_id: string;
  from_step: string | null;
  workflow: string;
  envelope: string;
  undo: string | null;
}

/** Carries out on the platform what operators were promised: at once after the action, and by the keeper for what a crash left open. Safe to repeat. */
export async function applyOpenActions(env: EngineEnv, only?: string): Promise<number> {
  const actions = await query<OpenAction>(
    env.DB,
    sql`
      SELECT a.id, a.verb, a.actor, a.reason, a.target, a.instance_id, a.detail->>'from' AS from_step, i.workflow, i.envelope, i.undo
      FROM actions a JOIN instances i ON i.id = a.instance_id
      WHERE a.applied_at IS NULL AND (${only ?? null} IS NULL OR a.id = ${only ?? null}) ORDER BY a.at LIMIT 50`,
  );
  const done: string[] = [];
  for (const action of actions) {
    try {
      await carryOut(env, action);
      done.push(action.id);
    } catch (error) {
      // It stays open: the keeper comes for it, and it holds back none of the others.
      console.warn(
        JSON.stringify({ log: "action", action_id: action.id, instance_id: action.instance_id, verb: action.verb, error: String(error) }),
      );
    }
  }
  if (done.length > 0)
    await batch(env.DB, [sql`UPDATE actions SET applied_at = ${now} WHERE id IN (SELECT value FROM json_each(${JSON.stringify(done)}))`]);
  return done.length;
}

function carryOut(env: EngineEnv, action: OpenAction): Promise<void> {
  switch (action.verb) {
    case "undo":
      return existing(env, action).then(() => undefined);
    case "retry":
      return restart(env, action);
    case "approve":
    case "reject_approval":
      return answerQuestion(env, action);
    default:
      return answerDoubt(env, action);
  }
}

/** Runs an instance again from the step that failed. */
async function restart(env: EngineEnv, action: OpenAction): Promise<void> {
  const { instance, status } = await existing(env, action);
  if (!instance || (status !== "errored" && status !== "terminated" && status !== "complete")) return;
  // A step the platform does not remember (it failed before its first attempt) cannot be restarted from: the beginning can, and guarded steps answer from the inbox.
  if (action.from_step) await instance.restart({ from: { name: action.from_step } }).catch(() => instance.restart());
  else await instance.restart();
}

/** Wakes the instance that waits for a doubt to be resolved. */
function answerDoubt(env: EngineEnv, action: OpenAction): Promise<void> {
  return tell(env, action, doubtEventType(action.target), { resolved: action.verb });
}

/** Gives the instance that asked its answer. */
function answerQuestion(env: EngineEnv, action: OpenAction): Promise<void> {
  const answer: Approval = { approved: action.verb === "approve", by: action.actor, reason: action.reason };
  return tell(env, action, answerEventType(action.target), answer);
}

/** Sends an event to an instance that waits for it. One that has ended meanwhile reads the same from its rows when it is retried. */
async function tell(env: EngineEnv, action: OpenAction, type: string, payload: unknown): Promise<void> {
  const { instance, status } = await existing(env, action);
  if (!instance || status === "errored" || status === "terminated" || status === "complete") return;
  await instance.sendEvent({ type, payload });
}

/** The instance, or its undo, on the platform. One it has forgotten is created anew, which is all it needs: its inbox answers for what is done. */
async function existing(env: EngineEnv, { workflow, instance_id, envelope, undo }: OpenAction): Promise<PlatformAnswer> {
  const answer = await askPlatform(env, workflow, platformId(instance_id, undo));
  if (answer.status === "unreachable") throw new MillraceError("unavailable", answer.error ?? "The platform did not answer.");
  if (answer.status === "unknown") {
    const { failed } = await startInstances(
      env,
      [{ id: instance_id, workflow, envelope: JSON.parse(envelope) as Envelope, undo }],
      "again",
    );
    for (const why of failed.values()) throw new MillraceError("unavailable", why);
  }
  return answer;
}
