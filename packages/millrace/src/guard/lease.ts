import { crashPoint, isSimulatedDeath } from "../contract/crash-points.ts";
import { durationMs } from "../contract/duration.ts";
import { isDefiniteRefusal, MillraceError, readable } from "../contract/errors.ts";
import { logDoubt } from "../observe/log/instances.ts";
import { describeFailure } from "../pass/failure.ts";
import type { RecorderClient } from "../recorder/client.ts";
import { ASKED } from "../store/inbox/classes.ts";
import type { Attempt } from "../store/inbox/entry.ts";
import type { EffectAttempt } from "./attempt.ts";
import { inDoubt, type StepOutcome } from "./outcome.ts";
import { assertNotGivenUp, DEFAULT_TIMEOUT, type StepDefinition } from "./step.ts";

/** Duration of a claim's lease, and the interval at which the attempt extends it. */
export const LEASE_MS = 15_000;
export const HEARTBEAT_MS = 5_000;

interface Lease {
  /** Aborts if another attempt takes over the claim. */
  readonly lost: AbortSignal;
  /**
   * Checks that the attempt still holds its claim. Called right before the upstream is called, also after a pause of the process.
   * Errors: `lease_lost`.
   */
  goOn(to: "ask" | "act"): Promise<void>;
}

/**
 * Runs an effect and extends the claim's lease meanwhile. If the effect throws a definite refusal, the effect's claim ends as `failed`,
 * which frees the key. After any other error the claim of a `lookup` ends as `expired`, and the next attempt asks the upstream. After such
 * an error the claim of a `once` ends as `in_doubt`.
 */
export async function underLease<Input, Output>(
  { pass, step, attempt, nth, begunAt, definition }: EffectAttempt<Input, Output>,
  askedAt: number,
  effect: (lease: Lease) => Promise<Output>,
): Promise<{ output: Output } | { outcome: StepOutcome }> {
  await crashPoint("W01 claimed, effect not started", pass.instanceId);
  const heartbeat = startHeartbeat(pass.recorder, attempt, durationMs(definition.timeout ?? DEFAULT_TIMEOUT), askedAt);
  let acts = false;
  const goOn = async (to: "ask" | "act") => {
    await heartbeat.hold();
    assertNotGivenUp(begunAt, definition.timeout);
    acts = to === "act";
  };
  try {
    return { output: await effect({ lost: heartbeat.lost, goOn }) };
  } catch (thrown) {
    const error = readable(thrown);
    if (isSimulatedDeath(error)) throw error;
    const ending = endingOf(definition, error, acts);
    const failure = describeFailure(step.label, nth, error);
    await pass.recorder.giveUp(attempt, ending, JSON.stringify(failure));
    if (ending !== "in_doubt") throw error;
    logDoubt(pass, failure, attempt.key, error);
    return { outcome: inDoubt(attempt.key) };
  } finally {
    heartbeat.stop();
  }
}

/** A refusal proves that the effect did not happen only if the upstream refused the effect itself, and not the look-up of the effect. */
function endingOf<Input, Output>(
  { effect }: StepDefinition<Input, Output>,
  error: unknown,
  acts: boolean,
): "failed" | "in_doubt" | "expired" {
  if (ASKED.has(effect)) return acts && isDefiniteRefusal(error) ? "failed" : "expired";
  return !acts || isDefiniteRefusal(error) ? "failed" : "in_doubt";
}

/** Extends a claim's lease at most for the step's timeout and 5 s, because an effect that hangs must not hold its key forever. */
function startHeartbeat(recorder: RecorderClient, attempt: Attempt, timeoutMs: number, askedAt: number) {
  const lost = new AbortController();
  const endsAt = Date.now() + timeoutMs + HEARTBEAT_MS;
  let heldAt = askedAt;
  const extend = async () => {
    const from = Date.now();
    const held = await recorder.extend(attempt, LEASE_MS);
    if (held) heldAt = from;
    else lost.abort(new MillraceError("lease_lost", "Another attempt has claimed this effect."));
  };
  const timer = setInterval(() => {
    if (Date.now() > endsAt) return clearInterval(timer);
    extend().catch(() => undefined);
  }, HEARTBEAT_MS);
  const hold = async () => {
    if (Date.now() - heldAt > HEARTBEAT_MS) await extend();
    lost.signal.throwIfAborted();
  };
  return { lost: lost.signal, hold, stop: () => clearInterval(timer) };
}
