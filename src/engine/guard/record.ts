import { crashPoint } from "../contract/crash-points.ts";
import { codeOf, type ErrorCode, MillraceError, messageOf } from "../contract/errors.ts";
import { digest, formatEntryKey } from "../contract/ids.ts";
import type { Attempt, Entry } from "../store/inbox/entry.ts";
import { addressEmitted } from "./emit.ts";
import { type PackedOutput, packOutput } from "./output.ts";
import type { Place } from "../pass/step-call.ts";
import type { Run } from "../pass/pass.ts";
import type { Writes } from "./step.ts";
import { asWrites } from "./writes.ts";

/** How an attempt ended: with an output, or with a doubt that a person must resolve, named by its entry. */
export type Settled = PackedOutput | { readonly inDoubt: string };

/**
 * Writes the outcome, the app's rows and the messages in one atomic write. If another attempt was first, its output is
 * the truth and is answered instead. An output that cannot be kept is recorded as such before the step fails, because its effect did
 * happen.
 */
export async function record<Output>(
  run: Run,
  place: Place,
  attempt: Attempt,
  output: Output,
  writes: (output: Output) => Writes,
): Promise<Settled> {
  await crashPoint("W03 effect done, not recorded", run.instanceId);
  const { packed, problem } = await pack(run, attempt, output);
  const { statements = [], emit = [] } = problem ? {} : asWrites(writes(output), place.label);
  const messages = await addressEmitted(run.env, run.envelope, `workflow:${run.workflow}`, attempt.key, emit);
  await crashPoint("W06 about to record", run.instanceId);
  const error = problem ? JSON.stringify({ step: place.label, code: codeOf(problem), message: messageOf(problem) }) : null;
  const outcome = { ...packed, statements, messages, error };
  let answer = await run.recorder.record({ ...attempt, position: run.nextPosition(place) }, outcome);
  if (attempt.aloneAs !== null && answer.entry?.state !== "done") {
    // Another pass has written: what it recorded is asked for first.
    await run.assertSameSteps(place);
    answer = await run.recorder.record({ ...attempt, position: run.nextPosition(place), aloneAs: null }, outcome);
  }
  const { mine, entry } = answer;
  run.noteRecorded(place, entry?.generation ?? attempt.key.generation, answer.run);
  await crashPoint("W05 recorded, step result lost", run.instanceId);
  if (!mine) run.noteOther();
  if (entry?.state !== "done") {
    throw new MillraceError("lease_lost", `Another attempt has taken over "${place.label}"; this one's outcome was not recorded.`);
  }
  return stored(run.instanceId, entry);
}

/** A recorded outcome as the step's result. Throws the recorded problem, with what to do, if the output could not be kept. */
export function stored(instanceId: string, entry: Entry): PackedOutput {
  if (entry.error !== null && entry.output === null && entry.output_ref === null) {
    const { code, message } = JSON.parse(entry.error) as { code: ErrorCode; message: string };
    if (code === "output_too_large" || code === "output_not_serializable") {
      const confirm = `POST /v1/effects/${formatEntryKey({ ...entry, instanceId })}/confirm`;
      const said = `The effect itself happened and is not repeated: confirm it with an output (${confirm}), then retry.`;
      throw new MillraceError(code, `${message} ${said}`);
    }
  }
  return { output: entry.output, outputRef: entry.output_ref };
}

async function pack(run: Run, attempt: Attempt, output: unknown): Promise<{ packed: PackedOutput; problem?: unknown }> {
  try {
    const path = `${run.envelope.tenant_id}/${run.instanceId}/${digest(attempt.key.step, attempt.key.item, attempt.token)}`;
    return { packed: await packOutput(run.env.PAYLOADS, path, output) };
  } catch (problem) {
    // What a commit does is its write: without it nothing happened, and nothing is to be recorded.
    const lost = codeOf(problem) === "output_too_large" || codeOf(problem) === "output_not_serializable";
    if (!lost || attempt.class === "commit") throw problem;
    return { packed: { output: null, outputRef: null }, problem };
  }
}
