import { workflowBinding } from "../contract/bindings.ts";
import { pauseMs } from "../contract/crash-points.ts";
import { backoffMs, durationMs } from "../contract/duration.ts";
import { askedDelayMs } from "../contract/errors.ts";
import type { Retries } from "../guard/step.ts";
import type { Pass } from "../pass/pass.ts";

/**
 * Milliseconds before a step's next attempt: the policy's back-off (linear and exponential: at most 1 h), or the wait that the error
 * requests if that is longer. An error never shortens the back-off: an upstream that requests 0 or 1 s each time would use up all attempts
 * within seconds.
 */
export function nextDelayMs(retries: Retries, attempt: number, error: unknown): number {
  return pauseMs(Math.max(Math.min(askedDelayMs(error) ?? 0, MAX_ASKED_MS), backOffMs(retries, attempt)));
}

/** Limit on the wait that an error requests: the platform ends a step if the delay is too long. */
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

/** The platform streams an instance's past events, then new ones. All past events are read when no event arrives for this long. */
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
