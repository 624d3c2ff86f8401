import type * as z from "zod";
import { redact } from "../contract/redact.ts";
import { beginning } from "../contract/text.ts";
import type { Attempt, Entry } from "../store/inbox/entry.ts";
import type { EffectAttempt } from "./attempt.ts";
import { LEASE_MS } from "./lease.ts";
import { inDoubt, resultOf, type StepOutcome } from "./outcome.ts";

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
    const beganAt = pass.lean.beganAt(step.label);
    const { mine, entry, standing } = await pass.recorder.claim({ ...attempt, beganAt }, LEASE_MS, shownInput(own));
    if (entry === null) {
      // Another pass has written: what it recorded is asked for first.
      await pass.inbox.assertSameSteps(step);
      attempt = { ...attempt, aloneAs: null };
      continue;
    }
    pass.inbox.noteEntry(step, entry.generation, standing, askedAt);
    if (mine) return { attempt: { ...attempt, epoch: entry.epoch }, repeats: entry.repeats === 1, askedAt };
    if (entry.state === "done") {
      pass.inbox.noteOther(step);
      return { outcome: resultOf(pass.instanceId, entry) };
    }
    if (entry.state === "confirmed") return { confirmed: entry };
    const key = { ...attempt.key, generation: entry.generation };
    if (entry.state === "in_doubt") return { outcome: inDoubt(key) };
    if (entry.state === "claimed") await scheduler.wait(Math.min(Math.max(20, entry.lease_left_ms + 20), HELD_LOOK_MS));
    attempt = { ...attempt, key };
  }
}

/** An effect's input as people are shown it beside a doubt; null where it has no JSON. */
export function shownInput({ input, definition }: { input: unknown; definition: { input?: z.ZodType } }): string | null {
  try {
    const text = JSON.stringify(definition.input ? redact(definition.input, input) : input) as string | undefined;
    return text === undefined ? null : beginning(text, SHOWN_INPUT_CHARACTERS);
  } catch {
    return null;
  }
}
