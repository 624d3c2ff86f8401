import type * as z from "zod";
import { crashPoint, isSimulatedDeath } from "../contract/crash-points.ts";
import { durationMs } from "../contract/duration.ts";
import { isDefiniteRefusal, MillraceError, readable } from "../contract/errors.ts";
import { redact } from "../contract/redact.ts";
import { beginning } from "../contract/text.ts";
import { logDoubt } from "../observe/log/instances.ts";
import type { RecorderClient } from "../recorder/client.ts";
import { describeFailure } from "../replay/failure.ts";
import { ASKED } from "../store/inbox/classes.ts";
import { type Attempt, type Entry, isLeftAlone } from "../store/inbox/entry.ts";
import type { EffectAttempt } from "./attempt.ts";
import { inDoubt, resultOf, type StepOutcome } from "./output.ts";
import { assertNotGivenUp, DEFAULT_TIMEOUT, type StepDefinition } from "./step.ts";

const SHOWN_INPUT_CHARACTERS = 4096;

/** Poll interval while another attempt holds the claim. */
const HELD_LOOK_MS = 1000;

/** An effect that another attempt completed, or an operator confirmed. */
type Settled = { outcome: StepOutcome } | { confirmed: Entry };

/** A claimed effect. `repeats` means that an earlier attempt may have reached the upstream. */
type Claimed = { attempt: Attempt; repeats: boolean; askedAt: number } | Settled;

/** Claims the key before the effect. Waits as long as another attempt holds the claim and extends the claim's lease. */
export async function claimEffect<Input, Output>(own: EffectAttempt<Input, Output>): Promise<Claimed> {
  const { replay, step } = own;
  let { attempt } = own;
  for (;;) {
    const askedAt = Date.now();
    const beganAt = replay.inline.beganAt(step.label);
    const { mine, entry, standing } = await replay.recorder.claim({ ...attempt, beganAt }, LEASE_MS, shownInput(own));
    if (entry === null) {
      // Another replay of the run has written records that this replay has not read.
      await replay.inbox.follow(step);
      attempt = { ...attempt, ...replay.inbox.stamp(step) };
      continue;
    }
    replay.inbox.noteEntry(standing, askedAt);
    if (mine) return { attempt: { ...attempt, epoch: entry.epoch }, repeats: entry.repeats === 1, askedAt };
    const settled = await settledIn(own, entry);
    if (settled) return settled;
    attempt = { ...attempt, key: { ...attempt.key, generation: entry.generation } };
  }
}

/**
 * Settles a claim from an earlier deployment, in which the step's class required claims. Waits as long as the holder extends the claim's
 * lease. If the lease expires, the outcome is unknown. Returns undefined if the attempt may run its effect.
 */
export async function settleClaim(own: Pick<EffectAttempt<never, never>, "replay" | "step" | "attempt">): Promise<Settled | undefined> {
  const { replay, attempt } = own;
  for (;;) {
    const askedAt = Date.now();
    const { entry, standing } = await replay.recorder.claim(attempt, LEASE_MS, null);
    if (entry === null) return undefined;
    replay.inbox.noteEntry(standing, askedAt);
    const settled = await settledIn(own, entry);
    if (settled || entry.state !== "claimed") return settled;
  }
}

/** True for an entry that must be settled before a step of a class without claims is attempted. */
export function isToSettle(entry: Entry | undefined): boolean {
  return entry !== undefined && (entry.state === "claimed" || isLeftAlone(entry));
}

/**
 * Reads the outcome from the inbox entry of another attempt. Returns undefined if the entry has no outcome. For a claim, returns undefined
 * only after a pause of at most 1 s.
 */
async function settledIn(
  { replay, step, attempt }: Pick<EffectAttempt<never, never>, "replay" | "step" | "attempt">,
  entry: Entry,
): Promise<Settled | undefined> {
  if (entry.state === "done") {
    replay.inbox.noteOther(step);
    return { outcome: resultOf(replay.instanceId, entry) };
  }
  if (entry.state === "confirmed") return { confirmed: entry };
  if (entry.state === "in_doubt") return { outcome: inDoubt({ ...attempt.key, generation: entry.generation }) };
  if (entry.state === "claimed") await scheduler.wait(Math.min(Math.max(20, entry.lease_left_ms + 20), HELD_LOOK_MS));
  return undefined;
}

/** An effect's input as shown to operators, with sensitive fields redacted. Null if the input is not JSON. */
export function shownInput({ input, definition }: { input: unknown; definition: { input?: z.ZodType } }): string | null {
  try {
    const text = JSON.stringify(definition.input ? redact(definition.input, input) : input) as string | undefined;
    return text === undefined ? null : beginning(text, SHOWN_INPUT_CHARACTERS);
  } catch {
    return null;
  }
}

/** Duration of a claim's lease, and the interval at which the attempt extends it. */
const LEASE_MS = 15_000;
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
  { replay, step, attempt, nth, begunAt, definition }: EffectAttempt<Input, Output>,
  askedAt: number,
  effect: (lease: Lease) => Promise<Output>,
): Promise<{ output: Output } | { outcome: StepOutcome }> {
  await crashPoint("W01 claimed, effect not started", replay.instanceId);
  const heartbeat = startHeartbeat(replay.recorder, attempt, durationMs(definition.timeout ?? DEFAULT_TIMEOUT), askedAt);
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
    await replay.recorder.giveUp(attempt, ending, JSON.stringify(failure));
    if (ending !== "in_doubt") throw error;
    logDoubt(replay, failure, attempt.key, error);
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
