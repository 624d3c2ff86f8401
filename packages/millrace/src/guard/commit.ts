import type { Duration } from "../contract/duration.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import type { EntryKey } from "../contract/ids.ts";
import { describeFailure } from "../replay/failure.ts";
import type { Replay } from "../replay/replay.ts";
import { patiently } from "../replay/run-state.ts";
import type { StepCall } from "../replay/step-call.ts";
import { reportingOf } from "./call.ts";
import { isToSettle, settleClaim } from "./claim.ts";
import { inDoubt, type PackedOutput, resultOf, type StepOutcome } from "./output.ts";
import { asWrites, record } from "./record.ts";
import { isSkipped, recordGiven, recordSkipped } from "./skipped.ts";
import { assertNotGivenUp, type Commit, DEFAULT_TIMEOUT, type Reporting, type Writes } from "./step.ts";

interface CommitStep {
  readonly replay: Replay;
  readonly step: StepCall;
  /** Returns the writes for a commit that an operator skipped. Default: no writes. */
  readonly skipped?: () => Writes;
}

/**
 * Attempts a commit: rows, messages and output in one write. The write is the effect, so it needs no claim, and reads in `make` may repeat.
 * After the platform has given up an attempt, the attempt writes nothing, because the code may have continued without that attempt (see
 * `fenceCommit`). A step that was an effect before a deployment settles its claim first; an output that an operator gave for that effect
 * replaces the commit's own output.
 */
export async function attemptCommit<Output>(
  { replay, step, skipped }: CommitStep,
  nth: number,
  make: (call: Reporting, key: EntryKey) => Commit<Output> | Promise<Commit<Output>>,
  timeout: Duration = DEFAULT_TIMEOUT,
): Promise<StepOutcome> {
  const begunAt = Date.now();
  const earlier = await replay.inbox.earlier(step, nth);
  if (earlier?.state === "done") return resultOf(replay.instanceId, earlier);
  replay.run.assertNotComplete();
  if (earlier && isSkipped(earlier)) return recordSkipped({ replay, step }, earlier, { class: "commit", writes: skipped });
  const own = { replay, step, attempt: { ...replay.inbox.attempt(step, "commit", earlier?.generation), epoch: earlier?.epoch ?? 1 } };
  if (earlier?.state === "in_doubt") return inDoubt(own.attempt.key);
  const settled = earlier?.state === "confirmed" ? { confirmed: earlier } : isToSettle(earlier) ? await settleClaim(own) : undefined;
  if (settled && "outcome" in settled) return settled.outcome;
  const { output, ...writes } = asWrites(await make(reportingOf(replay, step, nth), own.attempt.key), step.label);
  assertNotGivenUp(begunAt, timeout);
  if (!settled) return record(own, output as Output, () => writes);
  return recordGiven(own, settled.confirmed, { output, ...writes });
}

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
export async function unheardOutcome(replay: Replay, { step, hangs, error }: Unheard): Promise<PackedOutput | undefined> {
  if (step.commits) return writtenBy(replay, step as StepCall, hangs);
  if (step.name !== undefined && step.item !== undefined) await doubtHanging(replay, step as StepCall, hangs, error);
  return undefined;
}

/** The output of a commit that the platform gave up. A fence stops an attempt that still hangs from writing later. */
async function writtenBy(replay: Replay, step: StepCall, hangs: boolean): Promise<PackedOutput | undefined> {
  const { inbox } = replay;
  const entry = await patiently(async () => {
    const seen = (await inbox.entries(hangs)).findLast((one) => one.step === step.name && one.item === step.item);
    if (hangs) return replay.recorder.fence(inbox.attempt(step, "commit", seen?.generation));
    return seen && inbox.whole(seen);
  });
  return entry?.state === "done" ? resultOf(replay.instanceId, entry) : undefined;
}

async function doubtHanging(replay: Replay, { name, item, label }: StepCall, hangs: boolean, error: unknown): Promise<void> {
  const { instanceId, recorder, inbox } = replay;
  const isClaimed = async () => (await inbox.entries()).some((one) => one.step === name && one.item === item && one.state === "claimed");
  if (!hangs && !(await patiently(isClaimed))) return;
  const failure = describeFailure(label, 1, new MillraceError("in_doubt", messageOf(error)));
  await patiently(() => recorder.doubtHanging({ instanceId, step: name, item }, JSON.stringify(failure)));
}
