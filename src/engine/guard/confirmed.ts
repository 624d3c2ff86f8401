import * as z from "zod";
import { messageOf } from "../contract/errors.ts";
import type { Entry } from "../store/inbox/entry.ts";
import type { EffectAttempt } from "./attempt.ts";
import { putInDoubt, saysOfWrites } from "./doubt.ts";
import type { StepOutcome } from "./outcome.ts";
import { unpackOutput } from "./output.ts";
import { record } from "./record.ts";
import type { Writes } from "./step.ts";

/**
 * Records what a person said the effect's output was, as the attempt would have recorded its own: with the rows and messages that belong to
 * it. An output that those cannot be made from, or not be written with, is in doubt again, with what is wrong with it.
 */
export async function recordConfirmed<Input, Output>(own: EffectAttempt<Input, Output>, entry: Entry): Promise<StepOutcome> {
  const { pass, step, definition, writes } = own;
  const { generation, token, epoch } = entry;
  const confirmed = { ...own, attempt: { ...own.attempt, key: { ...own.attempt.key, generation }, token, epoch } };
  const given = (await unpackOutput(pass.env.PAYLOADS, { output: entry.output, outputRef: entry.output_ref })) as Output;
  let output: Output;
  let made: Writes;
  try {
    output = definition.output ? await definition.output.parseAsync(given) : given;
    made = writes(output);
  } catch (cause) {
    const why = cause instanceof z.ZodError ? z.prettifyError(cause) : messageOf(cause);
    return putInDoubt(confirmed, `The output that was confirmed is none of "${step.label}": ${why}. Confirm it with one that is.`);
  }
  try {
    return await record(confirmed, output, () => made);
  } catch (error) {
    if (!saysOfWrites(error)) throw error;
    const why = `"${step.label}" cannot be written with the output that was confirmed: ${messageOf(error)}`;
    return putInDoubt(confirmed, `${why} Confirm it anew with what the effect answered.`);
  }
}
