import { IN_PASS_MS, type LeanSteps } from "../pass/lean.ts";

/** How the first attempt at a lean step came out; or the attempt itself, where there is something to be waited for. */
type FirstAttempt<T> = { readonly result: T } | { readonly attempt: Promise<T> };

/**
 * Makes the first attempt at a lean step within the pass. One that is slow, has failed, is in doubt or is held is that of a step of the
 * platform's from then on, which waits for what has to be waited for.
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

/** True for an outcome that has to be waited for: of a person's answer, or until the run is resumed. */
function isParked(outcome: unknown): boolean {
  return typeof outcome === "object" && outcome !== null && ("inDoubt" in outcome || "held" in outcome);
}
