/** The windows of docs/crash-windows.md in which a test can let the code die. */
export type CrashPoint =
  | "A01 before accept commits"
  | "A02 accept committed, not answered"
  | "A03 accept committed, not enqueued"
  | "A01 before an event commits"
  | "A02 event committed, not answered"
  | "A03 event committed, not sent"
  | "Q03 created, not acknowledged"
  | "Q05 dead letter not yet stored"
  | "Q12 repaired, not sent"
  | "W01 claimed, effect not started"
  | "W03 effect done, not recorded"
  | "W04 committed, caller saw an error"
  | "W05 recorded, step result lost"
  | "W06 about to record"
  | "O01 committed, not relayed"
  | "O02 relayed, not confirmed"
  | "retry promised, not applied"
  | "restarted, not told"
  | "resolved, not told"
  | "answered, not told"
  | "undo promised, not applied"
  | "cancel promised, not applied"
  | "stopped on the platform, not begun anew"
  | "pause committed, not applied"
  | "resume promised, not applied"
  | "restart promised, not applied"
  | "skip promised, not applied"
  | "close promised, not applied"
  | "signal kept, not told"
  | "W33 end told, pass not over"
  | "alert raised, not sent"
  | "ended, callback not kept"
  | "callback kept, not started"
  | "L11 started, its turn not noted"
  | "L12 ended, its lane not told"
  | "L15 steered, not audited"
  | "B01 acted on one, chunk under way"
  | "B02 acted, chunk not recorded"
  | "B03 handed over, next pass not begun";

declare const MILLRACE_CRASH_POINTS: boolean | undefined;

declare global {
  /** Set by tests only: called at each crash point, with the instance if one is at it; what it throws is the death. */
  var millraceCrashPoint: ((point: CrashPoint, instanceId?: string) => void | Promise<void>) | undefined;
}

/** True in a bundle that has crash points: one that defines MILLRACE_CRASH_POINTS as true. */
export function hasCrashPoints(): boolean {
  return typeof MILLRACE_CRASH_POINTS !== "undefined" && MILLRACE_CRASH_POINTS;
}

/** Compiled to nothing unless the bundle defines MILLRACE_CRASH_POINTS. */
export async function crashPoint(point: CrashPoint, instanceId?: string): Promise<void> {
  if (typeof MILLRACE_CRASH_POINTS !== "undefined" && MILLRACE_CRASH_POINTS) await globalThis.millraceCrashPoint?.(point, instanceId);
}

/** True for the error a crash point threw: a dead process runs no catch block, so ours let it pass. */
export function isSimulatedDeath(error: unknown): boolean {
  return typeof MILLRACE_CRASH_POINTS !== "undefined" && MILLRACE_CRASH_POINTS && error instanceof Error && error.name === "SimulatedDeath";
}
