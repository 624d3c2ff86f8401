import { workflowBinding } from "../contract/bindings.ts";
import { pauseMs } from "../contract/crash-points.ts";
import { backoffMs, durationMs } from "../contract/duration.ts";
import { askedDelayMs } from "../contract/errors.ts";
import type { Retries } from "../guard/step.ts";
import type { Pass } from "../pass/pass.ts";

/**
 * Returns the milliseconds before a step's next attempt: the longer of the policy's back-off and the wait that the error requests. A linear
 * or exponential back-off is at most 1 h. An error never shortens the back-off, because an upstream that requests 0 or 1 s each time would
 * use up all attempts within seconds.
 */
export function nextDelayMs(retries: Retries, attempt: number, error: unknown): number {
  return pauseMs(Math.max(Math.min(askedDelayMs(error) ?? 0, MAX_ASKED_MS), backOffMs(retries, attempt)));
}

/** Maximum wait that an error can request, because the platform ends a step whose delay is too long. */
const MAX_ASKED_MS = 12 * 3_600_000;

function backOffMs(retries: Retries, attempt: number): number {
  const delayMs = durationMs(retries.delay);
  switch (retries.backoff ?? "exponential") {
    case "constant":
      return delayMs;
    case "linear":
      return Math.min(delayMs * attempt, 3_600_000);
    case "exponential":
      return backoffMs(attempt, delayMs, 3_600_000);
  }
}

/**
 * The platform streams an instance's past events, and after that its new events. If no event arrives for this long, all past events have
 * been read.
 */
const WAIT_MS = { first: 1000, next: 50 };

export async function wasSlept({ env, workflow, instanceId }: Pass, label: string): Promise<boolean> {
  const instance = await workflowBinding(env, workflow).get(instanceId);
  const ended = await instance.subscribe({ filter: ["sleep_completed"] });
  try {
    for (let waitMs = WAIT_MS.first; ; waitMs = WAIT_MS.next) {
      const next = await Promise.race([ended.next().catch(() => undefined), scheduler.wait(waitMs)]);
      if (!next || next.done) return false;
      if ("stepName" in next.value && next.value.stepName.replace(/-\d+$/, "") === label) return true;
    }
  } finally {
    ended[Symbol.dispose]();
  }
}
