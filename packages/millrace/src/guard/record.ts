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
 * Writes the outcome of an effect, the app's rows and the messages in one atomic write. If another attempt recorded first, that
 * attempt's output is returned. An output that cannot be stored is recorded as an error before the step fails, because its effect
 * happened.
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
  const { newTags: tags } = pass;
  const outcome = { ...packed, statements, messages, error, ...(tags.length > 0 && { tags }) };
  const askedAt = Date.now();
  const now = () => ({
    ...attempt,
    position: inbox.nextPosition(step),
    beganAt: pass.lean.beganAt(step.label),
    inPass: pass.lean.isOwn(step.label),
  });
  let answer = await pass.recorder.record(now(), outcome);
  if (attempt.aloneAs !== null && answer.entry?.state !== "done") {
    // Another replay of the run has written records since this replay started, so this replay reads those records first.
    await inbox.assertSameSteps(step);
    answer = await pass.recorder.record({ ...now(), aloneAs: null }, outcome);
  }
  const { mine, entry } = answer;
  inbox.noteEntry(step, entry?.generation ?? attempt.key.generation, answer.standing, askedAt);
  await crashPoint("W05 recorded, step result lost", pass.instanceId);
  if (mine) {
    inbox.noteOutcome(step);
    pass.noteTagged(tags);
  } else inbox.noteOther(step);
  if (entry?.state !== "done") {
    throw new MillraceError("lease_lost", `Another attempt has claimed "${step.label}": the outcome of this attempt was not recorded.`);
  }
  const result = resultOf(pass.instanceId, entry);
  return answer.appRows === undefined ? result : { ...result, appRows: answer.appRows };
}

export async function pack(pass: Pass, attempt: Attempt, output: unknown): Promise<{ packed: PackedOutput; problem?: unknown }> {
  try {
    const path = () => `${pass.envelope.tenant_id}/${pass.instanceId}/${digest(attempt.key.step, attempt.key.item, attempt.token)}`;
    return { packed: await packOutput(pass.env.PAYLOADS, path, output) };
  } catch (problem) {
    // The effect of a commit is its write. Without the write nothing happened, so there is nothing to record.
    const isLost = codeOf(problem) === "output_too_large" || codeOf(problem) === "output_not_serializable";
    if (!isLost || attempt.class === "commit") throw problem;
    return { packed: { output: null, outputRef: null }, problem };
  }
}
