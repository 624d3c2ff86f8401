import type { Duration } from "../contract/duration.ts";
import type { EntryKey } from "../contract/ids.ts";
import type { Pass } from "../pass/pass.ts";
import type { StepCall } from "../pass/step-call.ts";
import { reportingOf } from "./call.ts";
import { isToSettle, settleClaim } from "./claim.ts";
import { inDoubt, resultOf, type StepOutcome } from "./outcome.ts";
import { record } from "./record.ts";
import { isSkipped, recordGiven, recordSkipped } from "./skipped.ts";
import { assertNotGivenUp, type Commit, DEFAULT_TIMEOUT, type Reporting, type Writes } from "./step.ts";
import { asWrites } from "./writes.ts";

interface CommitStep {
  readonly pass: Pass;
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
  { pass, step, skipped }: CommitStep,
  nth: number,
  make: (call: Reporting, key: EntryKey) => Commit<Output> | Promise<Commit<Output>>,
  timeout: Duration = DEFAULT_TIMEOUT,
): Promise<StepOutcome> {
  const begunAt = Date.now();
  const earlier = await pass.inbox.earlier(step, nth);
  if (earlier?.state === "done") return resultOf(pass.instanceId, earlier);
  pass.run.assertNotComplete();
  if (earlier && isSkipped(earlier)) return recordSkipped({ pass, step }, earlier, { class: "commit", writes: skipped });
  const own = { pass, step, attempt: { ...pass.inbox.attempt(step, "commit", earlier?.generation), epoch: earlier?.epoch ?? 1 } };
  if (earlier?.state === "in_doubt") return inDoubt(own.attempt.key);
  const settled = earlier?.state === "confirmed" ? { confirmed: earlier } : isToSettle(earlier) ? await settleClaim(own) : undefined;
  if (settled && "outcome" in settled) return settled.outcome;
  const { output, ...writes } = asWrites(await make(reportingOf(pass, step, nth), own.attempt.key), step.label);
  assertNotGivenUp(begunAt, timeout);
  if (!settled) return record(own, output as Output, () => writes);
  return recordGiven(own, settled.confirmed, { output, ...writes });
}
