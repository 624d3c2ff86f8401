import { IN_PASS_MS, type LeanSteps } from "../pass/lean.ts";

type FirstAttempt<T> = { readonly result: T } | { readonly attempt: Promise<T> };

/**
 * Makes the first attempt at an inline step within the replay. If the attempt is slow, fails, is paused or has an unknown outcome, the step
 * continues as a platform step. A platform step can wait.
 */
export async function attemptInPass<T>(lean: LeanSteps, label: string, make: () => Promise<T>): Promise<FirstAttempt<T>> {
  const slow = Promise.withResolvers<undefined>();
  const timer = setTimeout(slow.resolve, IN_PASS_MS, undefined);
  lean.begin(label);
  const attempt = make();
  const ended = attempt.then(
    (result) => (isParked(result) ? undefined : { result }),
    () => undefined,
  );
  const done = await Promise.race([ended, slow.promise]);
  clearTimeout(timer);
  if (done === undefined) {
    lean.handOver(label);
    return { attempt };
  }
  lean.end(label);
  return done;
}

function isParked(outcome: unknown): boolean {
  return typeof outcome === "object" && outcome !== null && ("inDoubt" in outcome || "held" in outcome);
}
