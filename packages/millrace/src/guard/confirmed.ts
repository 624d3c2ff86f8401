import * as z from "zod";
import { messageOf } from "../contract/errors.ts";
import { beginning } from "../contract/text.ts";
import type { Failure } from "../pass/failure.ts";
import type { Entry } from "../store/inbox/entry.ts";
import type { EffectAttempt } from "./attempt.ts";
import { HELPS, putInDoubt, saysOfWrites, whyRefused } from "./doubt.ts";
import type { StepOutcome } from "./outcome.ts";
import { unpackOutput } from "./output.ts";
import { record } from "./record.ts";
import type { Writes } from "./step.ts";

/**
 * Records the output that an operator confirmed, with its rows and messages, as an attempt would. If the rows or messages cannot be
 * computed or written, the effect returns to `in_doubt` with the reason.
 */
export async function recordConfirmed<Input, Output>(own: EffectAttempt<Input, Output>, entry: Entry): Promise<StepOutcome> {
  const { pass, step, definition, writes } = own;
  const { generation, token, epoch } = entry;
  const confirmed = { ...own, attempt: { ...own.attempt, key: { ...own.attempt.key, generation }, token, epoch } };
  const given = (await unpackOutput(pass.env.PAYLOADS, { output: entry.output, outputRef: entry.output_ref })) as Output;
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
