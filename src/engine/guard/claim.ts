import { crashPoint, isSimulatedDeath } from "../contract/crash-points.ts";
import { durationMs } from "../contract/duration.ts";
import { isDefiniteRefusal, MillraceError, readable } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";
import { logAttempt } from "../observe/instances.ts";
import { describeFailure } from "../pass/failure.ts";
import type { RecorderClient } from "../recorder/client.ts";
import type { Attempt, Entry } from "../store/inbox/entry.ts";
import type { EffectAttempt } from "./attempt.ts";
import { inDoubt, resultOf, type StepOutcome } from "./outcome.ts";
import { assertNotGivenUp, DEFAULT_TIMEOUT, HEARTBEAT_MS, LEASE_MS, type StepDefinition } from "./step.ts";

/** How much of a claimed effect's input is kept for the operator's eyes. */
const SHOWN_INPUT_CHARACTERS = 4096;

/** Poll interval while another attempt holds the claim. */
const HELD_LOOK_MS = 1000;

/** A key that this attempt holds, and whether an earlier attempt may have reached the upstream; or what there is instead. */
type Claimed = { attempt: Attempt; repeats: boolean; askedAt: number } | { outcome: StepOutcome } | { confirmed: Entry };

/** Takes the key before the effect. While another attempt holds it and gives signs of life, waits for that one. */
export async function claimEffect<Input, Output>(own: EffectAttempt<Input, Output>): Promise<Claimed> {
  const { pass, step } = own;
  let { attempt } = own;
  for (;;) {
    const askedAt = Date.now();
    const { mine, entry, run } = await pass.recorder.claim(attempt, LEASE_MS, shown(own.input));
    if (entry === null) {
      // Another pass has written: what it recorded is asked for first.
      await pass.recorded.assertSameSteps(step);
      attempt = { ...attempt, aloneAs: null };
      continue;
    }
    pass.recorded.noteEntry(step, entry.generation, run);
    if (mine) return { attempt: { ...attempt, epoch: entry.epoch }, repeats: entry.repeats === 1, askedAt };
    if (entry.state === "done") return { outcome: resultOf(pass.instanceId, entry) };
    if (entry.state === "confirmed") return { confirmed: entry };
    const key = { ...attempt.key, generation: entry.generation };
    if (entry.state === "in_doubt") return { outcome: inDoubt(key) };
    if (entry.state === "claimed") await scheduler.wait(Math.min(Math.max(20, entry.lease_left_ms + 20), HELD_LOOK_MS));
    attempt = { ...attempt, key };
  }
}

/** A claim while its effect is under way. */
interface Lease {
  /** Aborts when another attempt has taken over. */
  readonly lost: AbortSignal;
  /**
   * Said right before the upstream is reached: an attempt that was paused since makes sure that nobody has taken over. Errors:
   * `lease_lost`.
   */
  goOn(to: "ask" | "act"): Promise<void>;
}

/**
 * Runs an effect while its claim is kept alive. If the effect throws, the claim ends truthfully: the upstream refused,
 * so the key is free again; or nobody knows, so a `lookup` will ask first and a `once` waits for a person.
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
    logAttempt(pass, failure, "in_doubt", error);
    return { outcome: inDoubt(attempt.key) };
  } finally {
    heartbeat.stop();
  }
}

/**
 * A refusal says that nothing happened only when it was the effect that was refused: a look-up that is says nothing of what it should have
 * found.
 */
function endingOf<Input, Output>(
  { effect }: StepDefinition<Input, Output>,
  error: unknown,
  acts: boolean,
): "failed" | "in_doubt" | "expired" {
  if (effect === "lookup") return acts && isDefiniteRefusal(error) ? "failed" : "expired";
  return !acts || isDefiniteRefusal(error) ? "failed" : "in_doubt";
}

/**
 * Extends the lease while the effect runs; at most for the step's time-out and a little, so that an effect that hangs for ever does not
 * hold its key for ever.
 */
function startHeartbeat(recorder: RecorderClient, attempt: Attempt, timeoutMs: number, askedAt: number) {
  const lost = new AbortController();
  const endsAt = Date.now() + timeoutMs + HEARTBEAT_MS;
  let heldAt = askedAt;
  const extend = async () => {
    const from = Date.now();
    const held = await recorder.extend(attempt, LEASE_MS);
    if (held) heldAt = from;
    else lost.abort(new MillraceError("lease_lost", "Another attempt has taken this effect over."));
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

function shown(input: unknown): string | null {
  try {
    const text = JSON.stringify(input) as string | undefined;
    return text === undefined ? null : beginning(text, SHOWN_INPUT_CHARACTERS);
  } catch {
    return null;
  }
}
