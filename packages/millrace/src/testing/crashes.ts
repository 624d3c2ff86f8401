import { type CrashPoint, hasCrashPoints } from "../contract/crash-points.ts";
import { MillraceError } from "../contract/errors.ts";

/**
 * Lets the code die at a crash point, once. Answers whether it did. At points in a run's code only runs of `whose`, by their instances'
 * ids, die: what other tests left under way must not die in their place. Errors: `config_invalid`
 * in a bundle that has no crash points.
 */
export function dieAt(point: CrashPoint, whose?: readonly string[]): { died: () => boolean } {
  const death = new Error(`Died at ${point}.`);
  death.name = "SimulatedDeath";
  return failAt(point, death, whose);
}

/** Throws at a crash point, once. Errors: as `dieAt`. */
export function failAt(point: CrashPoint, error: Error, whose?: readonly string[]): { died: () => boolean } {
  let died = false;
  atCrashPoints((at, by) => {
    if (at !== point || died || !isMeant(whose, by)) return;
    died = true;
    throw error;
  });
  return { died: () => died };
}

/**
 * Holds the code at a crash point, once, until it is released: a process that is paused for a while. It polls, because a promise must not
 * cross from one request into another. Errors: as `dieAt`.
 */
export function pauseAt(point: CrashPoint, whose?: readonly string[]): { reached: () => boolean; release: () => void } {
  let reached = false;
  let released = false;
  atCrashPoints(async (at, by) => {
    if (at !== point || reached || !isMeant(whose, by)) return;
    reached = true;
    while (!released) await scheduler.wait(10);
  });
  return { reached: () => reached, release: () => (released = true) };
}

/** Without this a test that waits for no death would be green, and say nothing. */
function atCrashPoints(does: NonNullable<typeof globalThis.millraceCrashPoint>): void {
  if (!hasCrashPoints()) {
    throw new MillraceError(
      "config_invalid",
      'The bundle under test has no crash points: nothing would die. Add define: { MILLRACE_CRASH_POINTS: "true" } to its project in vitest.config.ts.',
    );
  }
  globalThis.millraceCrashPoint = does;
}

function isMeant(whose: readonly string[] | undefined, instanceId: string | undefined): boolean {
  return instanceId === undefined ? whose === undefined : (whose?.includes(instanceId) ?? false);
}
