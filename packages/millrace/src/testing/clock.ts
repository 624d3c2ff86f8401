import type { EngineEnv } from "../contract/bindings.ts";
import { keeperOf } from "../keeper/client.ts";
import { assertCrashPoints } from "./crashes.ts";

/** Makes all of the keeper's work due now, and runs one round of the keeper. The newest instances come first. */
export async function keeperRound(env: EngineEnv): Promise<void> {
  await env.DB.batch([
    env.DB.prepare("UPDATE millrace_instances SET check_at = -accepted_at WHERE check_at IS NOT NULL"),
    env.DB.prepare("UPDATE millrace_outbox SET due_at = 0"),
    env.DB.prepare("UPDATE millrace_actions SET due_at = 0 WHERE applied_at IS NULL"),
  ]);
  await keeperOf(env).round();
}

/** Expires the claims of an instance's effects. In production a claim expires some time after its process has died. */
export async function expireLeases(env: EngineEnv, instanceId: string): Promise<void> {
  await env.DB.prepare("UPDATE millrace_inbox SET lease_until = 0 WHERE instance_id = ?1 AND state = 'claimed'").bind(instanceId).run();
}

/**
 * Makes sleeps and delays between attempts take no time until `restore()` is called. Like `dieAt`, the function needs a bundle with crash
 * points.
 */
export function skipPauses(): { restore: () => void } & Disposable {
  assertCrashPoints();
  const before = globalThis.millraceSkipsPauses;
  globalThis.millraceSkipsPauses = true;
  const restore = () => {
    globalThis.millraceSkipsPauses = before;
  };
  return { restore, [Symbol.dispose]: restore };
}
