import * as z from "zod";
import { MillraceError, messageOf } from "../contract/errors.ts";
import type { Replay } from "../replay/replay.ts";
import type { StepCall } from "../replay/step-call.ts";
import type { RecordedClass } from "../store/inbox/classes.ts";
import type { Attempt, Entry } from "../store/inbox/entry.ts";
import { SKIPPED } from "../store/inbox/outcome.ts";
import { isToSettle, settleClaim } from "./claim.ts";
import { saysOfWrites } from "./doubt.ts";
import { inDoubt, resultOf, type StepOutcome, unpackOutput } from "./output.ts";
import { record } from "./record.ts";
import type { Commit, Writes } from "./step.ts";

/** True for a step that an operator skipped, before an attempt has recorded its output. */
export function isSkipped({ state, token }: Pick<Entry, "state" | "token">): boolean {
  return state === "failed" && token === SKIPPED;
}

interface SkippedStep {
  readonly class: RecordedClass;
  readonly output?: z.ZodType | undefined;
  readonly writes?: ((output: never) => Writes) | undefined;
}

/**
 * Records the output that an operator gave for a failed step, with its rows and messages. The step is not undoable, because the effect did
 * not happen. Errors: `invalid_payload` if the output does not match the schema, or the writes of the output are refused. The step then
 * keeps its earlier status and can be skipped again, retried or undone.
 */
export async function recordSkipped(
  { replay, step }: { replay: Replay; step: StepCall },
  entry: Entry,
  skipped: SkippedStep,
): Promise<StepOutcome> {
  const { generation, token, epoch } = entry;
  const attempt = { ...replay.inbox.attempt({ ...step, undoable: false }, skipped.class, generation), token, epoch };
  const given = await unpackOutput(replay.env.PAYLOADS, { output: entry.output, outputRef: entry.output_ref });
  let output: unknown;
  let made: Writes;
  try {
    output = skipped.output && given !== undefined ? await skipped.output.parseAsync(given) : given;
    made = skipped.writes?.(output as never) ?? {};
  } catch (cause) {
    const why = cause instanceof z.ZodError ? z.prettifyError(cause) : messageOf(cause);
    return refuse(
      replay,
      attempt,
      `The output given for the skipped step "${step.label}" is not valid: ${why}. Skip it with a valid output.`,
    );
  }
  try {
    return await record({ replay, step, attempt }, output, () => made);
  } catch (error) {
    if (!saysOfWrites(error)) throw error;
    const why = `The rows of "${step.label}" cannot be written with the given output: ${messageOf(error).replace(/\.$/, "")}`;
    return refuse(replay, attempt, `${why}. Skip it with another output, or fix the code, then skip or retry it.`);
  }
}

/**
 * Fails the step with a message for the operator. The known status of the effect does not change. If the process dies before the platform
 * receives the failure, the next replay retries the step by its class.
 */
async function refuse(replay: Replay, { key, epoch }: Attempt, said: string): Promise<never> {
  await replay.recorder.refuseSkip({ key, epoch, run: await replay.run.number() });
  throw new MillraceError("invalid_payload", said, { unclear: false });
}

/**
 * The output that an operator gave for a skipped read. Undefined if the read has to run. If the step was an effect before a deployment,
 * its claim is settled first.
 */
export async function skippedRead(replay: Replay, step: StepCall): Promise<StepOutcome | undefined> {
  const entry = await replay.inbox.known(step);
  if (!entry) return undefined;
  if (isSkipped(entry)) return recordSkipped({ replay, step }, entry, { class: "natural" });
  if (entry.state === "done") return entry.token === SKIPPED ? resultOf(replay.instanceId, entry) : undefined;
  const own = { replay, step, attempt: replay.inbox.attempt(step, "natural", entry.generation) };
  if (entry.state === "in_doubt") return inDoubt(own.attempt.key);
  const settled = entry.state === "confirmed" ? { confirmed: entry } : isToSettle(entry) ? await settleClaim(own) : undefined;
  return settled && ("outcome" in settled ? settled.outcome : recordGiven(own, settled.confirmed));
}

/**
 * Records the output that an operator gave for an effect that is a commit in this deployment, with the writes of that commit. Default:
 * no writes.
 */
export async function recordGiven(
  { replay, step, attempt }: { replay: Replay; step: StepCall; attempt: Attempt },
  { generation, token, epoch, output, output_ref: outputRef }: Entry,
  { output: own, ...writes }: Commit<unknown> = {},
): Promise<StepOutcome> {
  const given = await unpackOutput(replay.env.PAYLOADS, { output, outputRef });
  return record({ replay, step, attempt: { ...attempt, key: { ...attempt.key, generation }, token, epoch } }, given ?? own, () => writes);
}
