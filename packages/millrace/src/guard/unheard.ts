import { MillraceError, messageOf } from "../contract/errors.ts";
import { describeFailure } from "../pass/failure.ts";
import type { Pass } from "../pass/pass.ts";
import { patiently } from "../pass/patiently.ts";
import type { StepCall } from "../pass/step-call.ts";
import { resultOf } from "./outcome.ts";
import type { PackedOutput } from "./output.ts";

interface Unheard {
  readonly step: Partial<StepCall>;
  /** True if the attempt that the platform gave up belongs to this replay and may still be running. */
  readonly hangs: boolean;
  readonly error: unknown;
}

/**
 * The outcome of a step that the platform gave up. A commit may have been written all the same, so its output is returned. A `once`
 * effect remains unknown, as its claim records.
 */
export async function unheardOutcome(pass: Pass, { step, hangs, error }: Unheard): Promise<PackedOutput | undefined> {
  if (step.commits) return writtenBy(pass, step as StepCall, hangs);
  if (step.name !== undefined && step.item !== undefined) await doubtHanging(pass, step as StepCall, hangs, error);
  return undefined;
}

/** The output of a commit that the platform gave up. A fence stops an attempt that still hangs from writing later. */
async function writtenBy(pass: Pass, step: StepCall, hangs: boolean): Promise<PackedOutput | undefined> {
  const { inbox } = pass;
  const entry = await patiently(async () => {
    const seen = (await inbox.entries(hangs)).findLast((one) => one.step === step.name && one.item === step.item);
    if (hangs) return pass.recorder.fence({ ...inbox.attempt(step, "commit", seen?.generation), aloneAs: null });
    return seen && inbox.whole(seen);
  });
  return entry?.state === "done" ? resultOf(pass.instanceId, entry) : undefined;
}

async function doubtHanging(pass: Pass, { name, item, label }: StepCall, hangs: boolean, error: unknown): Promise<void> {
  const { instanceId, recorder, inbox } = pass;
  const isClaimed = async () => (await inbox.entries()).some((one) => one.step === name && one.item === item && one.state === "claimed");
  if (!hangs && !(await patiently(isClaimed))) return;
  const failure = describeFailure(label, 1, new MillraceError("in_doubt", messageOf(error)));
  await patiently(() => recorder.doubtHanging({ instanceId, step: name, item }, JSON.stringify(failure)));
}
