import { isSimulatedDeath } from "../contract/crash-points.ts";
import { codeOf, type ErrorCode, MillraceError, messageOf } from "../contract/errors.ts";
import { digest, parseEntryKey } from "../contract/ids.ts";
import { beginning } from "../contract/text.ts";
import { logDoubt } from "../observe/log/instances.ts";
import { type Answered, describeFailure } from "../replay/failure.ts";
import type { Seen } from "../store/inbox/entry.ts";
import type { Effect, EffectAttempt } from "./attempt.ts";
import { shownInput } from "./claim.ts";
import { inDoubt, type StepOutcome } from "./output.ts";
import { pack } from "./record.ts";

/**
 * The platform event type that wakes an instance parked on an unknown outcome. Each entry and generation has its own type, so that an
 * old decision cannot wake a later wait.
 */
export function doubtEventType(entryKey: string): string {
  return DOUBT_EVENT + digest("doubt", entryKey);
}

export function isInDoubt(entries: readonly Seen[], entryKey: string): boolean {
  const key = parseEntryKey(entryKey);
  return entries.some(
    ({ step, item, generation, state }) => step === key?.step && item === key.item && generation === key.generation && state === "in_doubt",
  );
}

const DOUBT_EVENT = "doubt-";

export function isDoubtEvent(type: string): boolean {
  return type.startsWith(DOUBT_EVENT);
}

/**
 * Sets an effect to `in_doubt` again if its entry was deleted or lost with a restored backup, because an effect with an unknown outcome is
 * not repeated automatically. Returns undefined if the effect's entry, or a later entry, exists.
 */
export async function putBackInDoubt<Input, Output>(
  { replay, step, definition, input }: Effect<Input, Output>,
  doubted: string,
  nth: number,
): Promise<StepOutcome | undefined> {
  const key = parseEntryKey(doubted);
  const entries = await replay.inbox.entries(true);
  const isThere = ({ step: name, item, generation }: Seen) => name === key?.step && item === key.item && generation >= key.generation;
  if (key === undefined || entries.some(isThere)) return undefined;
  const attempt = { ...replay.inbox.attempt(step, definition.effect, key.generation), key };
  return insertDoubt({ replay, step, definition, input, attempt, nth }, ENTRY_GONE);
}

/**
 * Sets a `once` effect to `in_doubt` if a run had reached it before the database was restored, because no record shows whether the effect
 * happened.
 */
export function doubtLost<Input, Output>(own: Doubted<Input, Output>): Promise<StepOutcome> {
  return insertDoubt(own, ENTRY_LOST);
}

type Doubted<Input, Output> = Pick<EffectAttempt<Input, Output>, "replay" | "step" | "definition" | "input" | "attempt" | "nth">;

async function insertDoubt<Input, Output>(
  { replay, step, definition, input, attempt, nth }: Doubted<Input, Output>,
  said: string,
): Promise<StepOutcome> {
  const doubt = new MillraceError("in_doubt", said);
  const failure = describeFailure(step.label, nth, doubt);
  logDoubt(replay, failure, attempt.key, doubt);
  await replay.recorder.doubtAgain(attempt, shownInput({ input, definition }), JSON.stringify(failure));
  return inDoubt(attempt.key);
}

const ENTRY_LOST =
  "The database was restored to an earlier time, and an earlier run may have executed this effect. Check the receiving side, then confirm, reject or retry it.";

const ENTRY_GONE =
  "The outcome of this effect is unknown, and its record is missing: it was deleted, or a backup was restored without it. Check the receiving side, then confirm, reject or retry it.";

type Holding = Pick<EffectAttempt<never, never>, "replay" | "step" | "attempt" | "nth">;

/**
 * Sets an effect to `in_doubt`, with a message for the operator. `answered`: the effect's output, if the effect is known to have happened.
 */
export async function putInDoubt({ replay, step, attempt, nth }: Holding, said: string, answered?: Answered): Promise<StepOutcome> {
  const doubt = new MillraceError("in_doubt", said);
  const failure = { ...describeFailure(step.label, nth, doubt), answered };
  logDoubt(replay, failure, attempt.key, doubt);
  await replay.recorder.giveUp(attempt, "in_doubt", JSON.stringify(failure));
  return inDoubt(attempt.key);
}

/**
 * Sets a `once` effect whose rows and messages cannot be written to `in_doubt`, with its output and the error, so that an operator can
 * confirm the effect after the fix. The effect can no longer be rejected.
 */
export async function doubtUnwritten(holding: Holding, output: unknown, cause: unknown): Promise<StepOutcome> {
  const { packed, problem } = await pack(holding.replay, holding.attempt, output);
  const answered = beginning(JSON.stringify(output) ?? "nothing", 300);
  const why = `The rows recorded with it were refused: ${whyRefused(cause)}`;
  return putInDoubt(holding, `The effect happened and returned ${answered}. ${why} ${HELPS}`, problem ? undefined : packed);
}

export function whyRefused(cause: unknown): string {
  return beginning(messageOf(cause), 400).replace(/[.!?]?$/, (end) => end || ".");
}

/** Advice for the operator if the rows of an effect are refused. */
export const HELPS =
  'Deploy code with valid rows, then confirm it with that output; or cancel the instance without an undo ("undo": false).';

/** True if an outcome could not be recorded because of its rows and messages. */
export function saysOfWrites(error: unknown): boolean {
  return !isSimulatedDeath(error) && !PASSING.has(codeOf(error));
}

/**
 * Codes of errors that occur during recording, but not because of the rows and messages, and of errors that are recorded as the outcome.
 */
const PASSING: ReadonlySet<ErrorCode | undefined> = new Set(["lease_lost", "unavailable", "output_too_large", "output_not_serializable"]);
