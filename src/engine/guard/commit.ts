import type { Duration } from "../contract/duration.ts";
import type { Pass } from "../pass/pass.ts";
import type { StepCall } from "../pass/step-call.ts";
import { resultOf, type StepOutcome } from "./outcome.ts";
import { record } from "./record.ts";
import { isSkipped, recordSkipped } from "./skipped.ts";
import { assertNotGivenUp, type Commit, DEFAULT_TIMEOUT, type Writes } from "./step.ts";
import { asWrites } from "./writes.ts";

interface CommitStep {
  readonly pass: Pass;
  readonly step: StepCall;
  /** What is written where a person has skipped it. Default: nothing. */
  readonly skipped?: () => Writes;
}

/**
 * Attempts a commit: the rows, the messages and the output in one write. It needs no claim, because the write is the effect; whatever
 * `make` reads before it may be read again. One that the platform has given up meanwhile writes nothing: somebody may have gone on without
 * (see `fenceCommit`).
 */
export async function attemptCommit<Output>(
  { pass, step, skipped }: CommitStep,
  nth: number,
  make: () => Commit<Output> | Promise<Commit<Output>>,
  timeout: Duration = DEFAULT_TIMEOUT,
): Promise<StepOutcome> {
  const begunAt = Date.now();
  const earlier = await pass.inbox.earlier(step, nth);
  if (earlier?.state === "done") return resultOf(pass.instanceId, earlier);
  pass.run.assertNotComplete();
  if (earlier && isSkipped(earlier)) return recordSkipped({ pass, step }, earlier, { class: "commit", writes: skipped });
  const { output, ...writes } = asWrites(await make(), step.label);
  assertNotGivenUp(begunAt, timeout);
  const attempt = { ...pass.inbox.attempt(step, "commit", earlier?.generation), epoch: earlier?.epoch ?? 1 };
  return record({ pass, step, attempt }, output as Output, () => writes);
}
