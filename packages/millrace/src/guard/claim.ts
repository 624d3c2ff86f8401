import type * as z from "zod";
import { redact } from "../contract/redact.ts";
import { beginning } from "../contract/text.ts";
import { type Attempt, type Entry, isLeftAlone } from "../store/inbox/entry.ts";
import type { EffectAttempt } from "./attempt.ts";
import { LEASE_MS } from "./lease.ts";
import { inDoubt, resultOf, type StepOutcome } from "./outcome.ts";

const SHOWN_INPUT_CHARACTERS = 4096;

/** Poll interval while another attempt holds the claim. */
const HELD_LOOK_MS = 1000;

/** An effect that another attempt completed, or an operator confirmed. */
type Settled = { outcome: StepOutcome } | { confirmed: Entry };

/** A claimed effect. `repeats` means that an earlier attempt may have reached the upstream. */
type Claimed = { attempt: Attempt; repeats: boolean; askedAt: number } | Settled;

/** Claims the key before the effect. Waits as long as another attempt holds the claim and extends the claim's lease. */
export async function claimEffect<Input, Output>(own: EffectAttempt<Input, Output>): Promise<Claimed> {
  const { pass, step } = own;
  let { attempt } = own;
  for (;;) {
    const askedAt = Date.now();
    const beganAt = pass.lean.beganAt(step.label);
    const { mine, entry, standing } = await pass.recorder.claim({ ...attempt, beganAt }, LEASE_MS, shownInput(own));
    if (entry === null) {
      // Another replay of the run has written records since this replay started, so this replay reads those records first.
      await pass.inbox.assertSameSteps(step);
      attempt = { ...attempt, aloneAs: null };
      continue;
    }
    pass.inbox.noteEntry(step, entry.generation, standing, askedAt);
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
export async function settleClaim(own: Pick<EffectAttempt<never, never>, "pass" | "step" | "attempt">): Promise<Settled | undefined> {
  const { pass, step, attempt } = own;
  for (;;) {
    const askedAt = Date.now();
    const { entry, standing } = await pass.recorder.claim(attempt, LEASE_MS, null);
    if (entry === null) return undefined;
    pass.inbox.noteEntry(step, entry.generation, standing, askedAt);
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
  { pass, step, attempt }: Pick<EffectAttempt<never, never>, "pass" | "step" | "attempt">,
  entry: Entry,
): Promise<Settled | undefined> {
  if (entry.state === "done") {
    pass.inbox.noteOther(step);
    return { outcome: resultOf(pass.instanceId, entry) };
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
