import * as z from "zod";
import { noteEffect } from "../contract/crash-points.ts";
import { inDevelopment } from "../contract/development.ts";
import { codeOf, MillraceError, messageOf } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";
import { describeFailure, type Failure } from "../replay/failure.ts";
import { CLAIMED, DOUBTED } from "../store/inbox/classes.ts";
import type { Entry } from "../store/inbox/entry.ts";
import type { Effect, EffectAttempt } from "./attempt.ts";
import { callOf, inTime, noteKeyRead } from "./call.ts";
import { claimEffect, isToSettle, settleClaim, underLease } from "./claim.ts";
import { doubtLost, doubtUnwritten, HELPS, putBackInDoubt, putInDoubt, saysOfWrites, whyRefused } from "./doubt.ts";
import { inDoubt, resultOf, type StepOutcome, unpackOutput } from "./output.ts";
import { record } from "./record.ts";
import { isSkipped, recordSkipped } from "./skipped.ts";
import { assertNotGivenUp, type Writes } from "./step.ts";

/**
 * Attempts an effect by its class, then records the outcome. A recorded effect is not repeated. The classes `keyed` and `natural` run at
 * once, because the upstream accepts a repetition. The classes `lookup` and `once` claim the effect's key first, so that no other
 * attempt runs concurrently. `doubted` is the key of the entry that an earlier attempt set to `in_doubt`.
 */
export async function attemptEffect<Input, Output>(effect: Effect<Input, Output>, nth: number, doubted?: string): Promise<StepOutcome> {
  const { replay, step, definition } = effect;
  const begunAt = Date.now();
  const again = doubted === undefined ? undefined : await putBackInDoubt(effect, doubted, nth);
  if (again) return again;
  const earlier = await replay.inbox.earlier(step, nth);
  if (earlier?.state === "done") return resultOf(replay.instanceId, earlier);
  replay.run.assertNotComplete();
  const attempt = replay.inbox.attempt(step, definition.effect, earlier?.generation);
  if (earlier?.state === "in_doubt") return inDoubt(attempt.key);
  const own = { ...effect, attempt, nth, begunAt };
  if (earlier && isSkipped(earlier)) {
    return recordSkipped(effect, earlier, { class: definition.effect, output: definition.output, writes: effect.writes });
  }
  if (earlier?.state === "confirmed") return recordConfirmed(own, earlier);
  if (!earlier && DOUBTED.has(definition.effect) && replay.inbox.mayBeLost(step)) return doubtLost(own);
  if (CLAIMED.has(definition.effect)) return claimAndDo(own);
  return (isToSettle(earlier) && (await settledBefore(own))) || doAndRecord(own);
}

async function settledBefore<Input, Output>(own: EffectAttempt<Input, Output>): Promise<StepOutcome | undefined> {
  const settled = await settleClaim(own);
  return settled && ("outcome" in settled ? settled.outcome : recordConfirmed(own, settled.confirmed));
}

async function doAndRecord<Input, Output>(own: EffectAttempt<Input, Output>): Promise<StepOutcome> {
  const { replay, step, definition, begunAt } = own;
  if (!(await replay.mayBegin(step))) return { held: true };
  assertNotGivenUp(begunAt, definition.timeout);
  const run = (signal: AbortSignal) => definition.run(callOf(own, signal));
  const output = await inTime(definition, inDevelopment(replay.env) ? noteKeyRead(own) : run);
  try {
    return await record(own, output, own.writes);
  } catch (error) {
    // A concurrent attempt, made with another effect class of the step, has claimed the effect, so a retry must not send the effect again.
    const settled = codeOf(error) === "lease_lost" ? await settledBefore(own) : undefined;
    if (settled) return settled;
    throw error;
  }
}

async function claimAndDo<Input, Output>(own: EffectAttempt<Input, Output>): Promise<StepOutcome> {
  const { replay, definition } = own;
  const claimed = await claimEffect(own);
  if ("outcome" in claimed) return claimed.outcome;
  if ("confirmed" in claimed) return recordConfirmed(own, claimed.confirmed);
  const holding = { ...own, attempt: claimed.attempt };
  // The claim returned the run's current status, because an operator may have stopped the run meanwhile.
  if ((await replay.run.decision()) !== "continue") return pausedEffect(holding, claimed.repeats);
  const done = await underLease(holding, claimed.askedAt, (lease) =>
    inTime(definition, async (signal) => {
      const call = callOf(holding, AbortSignal.any([signal, lease.lost]));
      if ((claimed.repeats || replay.inbox.isSetBack) && definition.effect === "lookup") {
        await lease.goOn("ask");
        noteEffect({ asks: true });
        const found = await definition.lookup(call);
        if (found !== undefined && found !== null) return found;
      }
      await lease.goOn("act");
      noteEffect({ asks: false });
      return definition.run(call);
    }),
  );
  if ("outcome" in done) return done.outcome;
  try {
    return await record(holding, done.output, own.writes);
  } catch (error) {
    if (!DOUBTED.has(definition.effect) || !saysOfWrites(error)) throw error;
    return doubtUnwritten(holding, done.output, error);
  }
}

/** Releases the claim of an effect that was not started, because an operator has stopped or paused the run. */
async function pausedEffect<Input, Output>(
  { replay, step, attempt, nth }: EffectAttempt<Input, Output>,
  repeats: boolean,
): Promise<StepOutcome> {
  const failure = describeFailure(
    step.label,
    nth,
    new MillraceError("not_retryable", "An operator paused or stopped the run before this effect started."),
  );
  await replay.recorder.giveUp(attempt, repeats ? "expired" : "failed", JSON.stringify(failure));
  return { held: true };
}

/**
 * Records the output that an operator confirmed, with its rows and messages, as an attempt would. If the rows or messages cannot be
 * computed or written, the effect returns to `in_doubt` with the reason.
 */
async function recordConfirmed<Input, Output>(own: EffectAttempt<Input, Output>, entry: Entry): Promise<StepOutcome> {
  const { replay, step, definition, writes } = own;
  const { generation, token, epoch } = entry;
  const confirmed = { ...own, attempt: { ...own.attempt, key: { ...own.attempt.key, generation }, token, epoch } };
  const given = (await unpackOutput(replay.env.PAYLOADS, { output: entry.output, outputRef: entry.output_ref })) as Output;
  // An output that the engine has recorded remains, even if the operator confirmed a different output.
  const answered = entry.error === null ? undefined : (JSON.parse(entry.error) as Failure).answered;
  const again = (said: string) => putInDoubt(confirmed, said, answered);
  let output: Output;
  try {
    output = definition.output ? await definition.output.parseAsync(given) : given;
  } catch (cause) {
    const why = cause instanceof z.ZodError ? z.prettifyError(cause) : messageOf(cause);
    const shape = given == null && definition.output ? ` The expected shape is: ${shapeOf(definition.output)}.` : "";
    return again(`The confirmed output is not valid for "${step.label}": ${why}.${shape} Confirm it with a valid output.`);
  }
  const refused = (cause: unknown) => {
    // Over HTTP an undefined output is sent as null.
    const isKnown = answered?.outputRef === entry.output_ref && (answered.output ?? "null") === (entry.output ?? "null");
    const fault = isKnown
      ? "The output is correct, but the rows that the code makes from it are invalid"
      : "If the effect returned another output, confirm it with that output; otherwise its rows are invalid";
    return again(`The rows that "${step.label}" records with the confirmed output were refused: ${whyRefused(cause)} ${fault}. ${HELPS}`);
  };
  let made: Writes;
  try {
    made = writes(output);
  } catch (cause) {
    return refused(cause);
  }
  try {
    return await record(confirmed, output, () => made);
  } catch (error) {
    if (!saysOfWrites(error)) throw error;
    return refused(error);
  }
}

function shapeOf(output: z.ZodType): string {
  const { $schema: _, additionalProperties: __, ...shape } = z.toJSONSchema(output, { io: "input", unrepresentable: "any" });
  return beginning(JSON.stringify(shape), 400);
}
