import { MillraceError, messageOf } from "../contract/errors.ts";
import { digest, parseEntryKey } from "../contract/ids.ts";
import { beginning } from "../contract/text.ts";
import { logDoubt } from "../observe/log/instances.ts";
import { describeFailure } from "../pass/failure.ts";
import type { Seen } from "../store/inbox/entry.ts";
import type { EffectAttempt } from "./attempt.ts";
import { inDoubt, type StepOutcome } from "./outcome.ts";

/**
 * The platform's event type that wakes an instance parked on a doubt: one per entry and generation, so that an old answer cannot wake a
 * later doubt.
 */
export function doubtEventType(entryKey: string): string {
  return `doubt-${digest("doubt", entryKey)}`;
}

/** Whether an effect, by its entry's key, still waits for a person to say what became of it. */
export function isInDoubt(entries: readonly Seen[], entryKey: string): boolean {
  const key = parseEntryKey(entryKey);
  return entries.some(
    ({ step, item, generation, state }) => step === key?.step && item === key.item && generation === key.generation && state === "in_doubt",
  );
}

/** What an attempt is that holds its entry, whatever its input and output are. */
type Holding = Pick<EffectAttempt<never, never>, "pass" | "step" | "attempt" | "nth">;

/** Ends an attempt that holds its entry in doubt, with a sentence for the person who has to look. */
export async function putInDoubt({ pass, step, attempt, nth }: Holding, said: string): Promise<StepOutcome> {
  const doubt = new MillraceError("in_doubt", said);
  const failure = describeFailure(step.label, nth, doubt);
  logDoubt(pass, failure, attempt.key, doubt);
  await pass.recorder.giveUp(attempt, "in_doubt", JSON.stringify(failure));
  return inDoubt(attempt.key);
}

/**
 * A `once` effect that happened, and whose rows and messages cannot be written: in doubt at once, with what it answered and what is wrong,
 * for a person to confirm once that is mended.
 */
export function doubtUnwritten(holding: Holding, output: unknown, cause: unknown): Promise<StepOutcome> {
  const answered = beginning(JSON.stringify(output) ?? "nothing", 300);
  const why = beginning(messageOf(cause), 400);
  const said = `It happened and answered ${answered}, but what is recorded with that could not be: ${why}`;
  return putInDoubt(holding, `${said} Mend the code, then confirm it with that output.`);
}
