import { MillraceError } from "../contract/errors.ts";
import { within } from "../contract/within.ts";
import type { Plan } from "./definition.ts";
import { type Handed, type Settled, Settlement } from "./settlement.ts";

export interface CameBack {
  settled: Settled;
  /** The error or the time-out of the handler; undefined when the handler succeeded. */
  thrown: unknown;
}

/**
 * Calls the lane's handler with a batch, and returns for each message how the message was settled. The call ends no later than at the
 * deadline.
 */
export async function handOut(
  plan: Plan,
  messages: readonly Handed[],
  { env, object, metrics }: { env: unknown; object: DurableObjectState; metrics: () => MessageBatchMetrics },
): Promise<CameBack> {
  const settlement = new Settlement(messages);
  const background: Promise<unknown>[] = [];
  const ctx = {
    waitUntil: (work: Promise<unknown>) => void background.push(work),
    passThroughOnException: () => undefined,
    props: {},
    exports: object.exports,
    abort: (reason?: string) => object.abort(reason),
  } as unknown as ExecutionContext;
  const whole = async () => {
    // Work passed to `waitUntil` is part of the handler's call, also when the call fails, because the next call must not overlap that work.
    const calls: Promise<unknown>[] = [(async () => plan.queue(settlement.batch(plan.name, metrics), env, ctx))()];
    const failures: unknown[] = [];
    for (let next = calls; next.length > 0; next = background.splice(0)) {
      for (const result of await Promise.allSettled(next)) if (result.status === "rejected") failures.push(result.reason);
    }
    if (failures.length > 0) throw failures[0];
  };
  try {
    await within(whole(), plan.deadlineMs, () => tooLate(plan));
    return { settled: settlement.close(true), thrown: undefined };
  } catch (thrown) {
    return { settled: settlement.close(false), thrown: thrown ?? new Error("The handler threw an error without a readable message.") };
  }
}

function tooLate({ deadlineMs }: Plan): MillraceError {
  return new MillraceError(
    "step_timeout",
    `The handler did not end within ${deadlineMs / 1000} seconds. Raise the lane's deadline, or do less work in the handler.`,
  );
}
