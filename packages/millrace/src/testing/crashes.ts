import { type CrashPoint, crashPoints, hasCrashPoints } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";
import { nearest } from "../contract/nearest.ts";

/**
 * Ends the code at a crash point, once, in the same way as the death of its process. `died()` returns true if the code has died at the
 * crash point. At an instance's crash point, only instances with the given ids die. Errors: `config_invalid` for an unknown crash point and
 * in a bundle without crash points. The error also occurs if an instance's crash point is given without ids, or a crash point of the
 * deployment with ids.
 */
export function dieAt(point: CrashPoint, instanceIds?: readonly string[]): { died: () => boolean } {
  return failAt(point, deathAt(point), instanceIds);
}

/** The error that simulates the death of a process. No catch block of the engine handles the error. */
export function deathAt(point: string): Error {
  const death = new Error(`Died at ${point}.`);
  death.name = "SimulatedDeath";
  return death;
}

/** Throws an error at a crash point, once. The errors are those of `dieAt`. */
export function failAt(point: CrashPoint, error: Error, instanceIds?: readonly string[]): { died: () => boolean } {
  let died = false;
  watchPoint(point, instanceIds, () => {
    if (died) return;
    died = true;
    throw error;
  });
  return { died: () => died };
}

/**
 * Holds the code at a crash point, once, until `release()` is called. This simulates a process without progress. The held code polls,
 * because a request must not await a promise of another request. The errors are those of `dieAt`.
 */
export function pauseAt(point: CrashPoint, instanceIds?: readonly string[]): { reached: () => boolean; release: () => void } {
  let reached = false;
  let released = false;
  watchPoint(point, instanceIds, async () => {
    if (reached) return;
    reached = true;
    while (!released) await scheduler.wait(10);
  });
  return { reached: () => reached, release: () => (released = true) };
}

/** Refuses a bundle without crash points, because tests of such a bundle would pass although no code died. Errors: `config_invalid`. */
export function assertCrashPoints(): void {
  if (hasCrashPoints()) return;
  throw new MillraceError(
    "config_invalid",
    'The bundle under test has no crash points: nothing would die. Add define: { MILLRACE_CRASH_POINTS: "true" } to its project in vitest.config.ts.',
  );
}

function watchPoint(point: CrashPoint, instanceIds: readonly string[] | undefined, does: () => void | Promise<void>): void {
  assertCrashPoints();
  const points = crashPoints();
  const known = points.get(point);
  if (known === undefined) {
    const near = nearest(point, points.keys());
    throw refused(
      `There is no crash point "${point}".${near ? ` Did you mean "${near}"?` : ` There are: ${[...points.keys()].join("; ")}.`}`,
    );
  }
  if (known.ofInstance && !instanceIds?.length) {
    throw refused(
      `"${point}" is a point of one instance. Name the instances that you mean: dieAt("${point}", [instanceId(tenantId, workflow, key)]).`,
    );
  }
  if (!known.ofInstance && instanceIds) throw refused(`The code at "${point}" is not of one instance. Leave out the ids of instances.`);
  globalThis.millraceCrashPoint = (at, instanceId) => {
    if (at === point && (!known.ofInstance || instanceIds?.includes(instanceId ?? ""))) return does();
  };
}

const refused = (message: string) => new MillraceError("config_invalid", message);
