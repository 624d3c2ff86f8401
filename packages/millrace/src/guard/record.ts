import { crashPoint } from "../contract/crash-points.ts";
import { codeOf, MillraceError, messageOf } from "../contract/errors.ts";
import { digest } from "../contract/ids.ts";
import type { Pass } from "../pass/pass.ts";
import type { StepCall } from "../pass/step-call.ts";
import type { Attempt } from "../store/inbox/entry.ts";
import { addressEmitted } from "./emit.ts";
import { resultOf, type StepOutcome } from "./outcome.ts";
import { type PackedOutput, packOutput } from "./output.ts";
import type { Writes } from "./step.ts";
import { asWrites } from "./writes.ts";

/**
 * Writes the outcome, the app's rows and the messages in one atomic write. If another attempt was first, its output is
 * the truth and is answered instead. An output that cannot be kept is recorded as such before the step fails, because its effect did
 * happen.
 */
export async function record<Output>(
  { pass, step, attempt }: { pass: Pass; step: StepCall; attempt: Attempt },
  output: Output,
  writes: (output: Output) => Writes,
): Promise<StepOutcome> {
  const { inbox } = pass;
  await crashPoint("W03 effect done, not recorded", pass.instanceId);
  const { packed, problem } = await pack(pass, attempt, output);
  const { statements = [], emit = [] } = problem ? {} : asWrites(writes(output), step.label);
  const messages = await addressEmitted(pass.env, pass.envelope, pass.workflow, attempt.key, emit);
  await crashPoint("W06 about to record", pass.instanceId);
  const error = problem ? JSON.stringify({ step: step.label, code: codeOf(problem), message: messageOf(problem) }) : null;
  const outcome = { ...packed, statements, messages, error };
  const askedAt = Date.now();
  const now = () => ({
    ...attempt,
    position: inbox.nextPosition(step),
    beganAt: pass.lean.beganAt(step.label),
    inPass: pass.lean.isOwn(step.label),
  });
  let answer = await pass.recorder.record(now(), outcome);
  if (attempt.aloneAs !== null && answer.entry?.state !== "done") {
    // Another pass has written: what it recorded is asked for first.
    await inbox.assertSameSteps(step);
    answer = await pass.recorder.record({ ...now(), aloneAs: null }, outcome);
  }
  const { mine, entry } = answer;
  inbox.noteEntry(step, entry?.generation ?? attempt.key.generation, answer.standing, askedAt);
  await crashPoint("W05 recorded, step result lost", pass.instanceId);
  if (mine) inbox.noteOutcome(step);
  else inbox.noteOther(step);
  if (entry?.state !== "done") {
    throw new MillraceError("lease_lost", `Another attempt has claimed "${step.label}": the outcome of this attempt was not recorded.`);
  }
  const result = resultOf(pass.instanceId, entry);
  return answer.appRows === undefined ? result : { ...result, appRows: answer.appRows };
}

/** What an attempt answered, storable; with a problem where it is not. The same path for the same attempt. */
export async function pack(pass: Pass, attempt: Attempt, output: unknown): Promise<{ packed: PackedOutput; problem?: unknown }> {
  try {
    const path = () => `${pass.envelope.tenant_id}/${pass.instanceId}/${digest(attempt.key.step, attempt.key.item, attempt.token)}`;
    return { packed: await packOutput(pass.env.PAYLOADS, path, output) };
  } catch (problem) {
    // What a commit does is its write: without it nothing happened, and nothing is to be recorded.
    const isLost = codeOf(problem) === "output_too_large" || codeOf(problem) === "output_not_serializable";
    if (!isLost || attempt.class === "commit") throw problem;
    return { packed: { output: null, outputRef: null }, problem };
  }
}
