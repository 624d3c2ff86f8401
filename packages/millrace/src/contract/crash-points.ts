import { AsyncLocalStorage } from "node:async_hooks";

/** The crash points within the work of one instance. A test that simulates a crash at such a point specifies the instances. */
const OF_INSTANCES = [
  "W01 claimed, effect not started",
  "W03 effect done, not recorded",
  "W06 about to record",
  "O01 committed, not relayed",
  "W04 committed, caller saw an error",
  "W05 recorded, step result lost",
  "W33 end recorded, replay not over",
  "ended, callback not stored",
  "child ended, parent not notified",
  "parent notified, not recorded",
  "slot given, next not started",
  "L12 ended, lane not notified",
  "platform run stopped, not restarted",
  "operator signal stored, not sent",
  "B01 one item changed, chunk not over",
  "B02 items changed, chunk not recorded",
  "B03 chunk ended, next run not started",
] as const;

/** The crash points around messages and operator actions, which belong to no single instance. */
const AROUND = [
  "A01 before accept commits",
  "A02 accept committed, not answered",
  "A03 accept committed, not enqueued",
  "A11 commands gathered, not committed",
  "A12 gathered commands committed, not enqueued",
  "A13 gathered commands enqueued, not answered",
  "A01 before an event commits",
  "A02 event committed, not answered",
  "A03 event committed, not sent",
  "Q03 created, not acknowledged",
  "Q05 dead letter not yet stored",
  "Q12 repaired, not sent",
  "retry committed, not applied",
  "platform run restarted, not recorded",
  "doubt resolved, instance not notified",
  "question answered, instance not notified",
  "undo committed, not applied",
  "cancel committed, not applied",
  "pause committed, not applied",
  "resume committed, not applied",
  "restart committed, not applied",
  "skip committed, not applied",
  "close committed, not applied",
  "signal stored, instance not notified",
  "alert raised, not sent",
  "callback stored, not started",
  "L11 started, turn not recorded",
  "L15 lane changed, not audited",
  "instances noted for R2, not copied",
  "instances copied to R2, not removed",
  "instances moved to R2, slice not recorded",
] as const;

/** A crash window of docs/crash-windows.md, within which a test can simulate a crash. */
export type CrashPoint = InstancePoint | PointAround;
type InstancePoint = (typeof OF_INSTANCES)[number];
export type PointAround = (typeof AROUND)[number];

/** Data for a test at a crash point: the step, and the messages committed with its outcome. */
export interface AboutPoint {
  readonly step?: string | undefined;
  readonly messages?: readonly { readonly body: string }[];
}

/** The workflow code that runs at a crash point, for tests: the code between two steps, or an attempt of one step. */
export interface CodeAtWork {
  readonly instanceId: string;
  /** The step in progress; undefined between the steps. */
  readonly step?: string;
  readonly class?: string | undefined;
  /** The upstream idempotency key of the running effect. */
  readonly key?: string;
  /** True while a `lookup` checks whether an earlier attempt had its effect. */
  readonly asks?: boolean;
}

const codes = new AsyncLocalStorage<CodeAtWork>();

declare const MILLRACE_CRASH_POINTS: boolean | undefined;

declare global {
  /**
   * A function that only tests set. The engine calls the function at each crash point, with the instance if the point belongs to an
   * instance. The test's function throws to simulate a crash.
   */
  var millraceCrashPoint: ((point: CrashPoint, instanceId?: string, about?: AboutPoint) => void | Promise<void>) | undefined;
  /** Only tests set this field. True skips the time of sleeps and retry delays. */
  var millraceSkipsPauses: boolean | undefined;
}

/** True if this bundle has crash points. A bundle with crash points defines MILLRACE_CRASH_POINTS as true. */
export function hasCrashPoints(): boolean {
  return typeof MILLRACE_CRASH_POINTS !== "undefined" && MILLRACE_CRASH_POINTS;
}

/** Calls a test's hook at a crash point. The call compiles to nothing unless the bundle defines MILLRACE_CRASH_POINTS. */
export async function crashPoint(
  ...at: [point: InstancePoint, instanceId: string, about?: AboutPoint] | [point: PointAround]
): Promise<void>;
export async function crashPoint(point: CrashPoint, instanceId?: string, about?: AboutPoint): Promise<void> {
  if (typeof MILLRACE_CRASH_POINTS !== "undefined" && MILLRACE_CRASH_POINTS)
    await globalThis.millraceCrashPoint?.(point, instanceId, about ?? codes.getStore());
}

/** True for the error of a crash point: a crashed process runs no catch block, so our catch blocks rethrow this error. */
export function isSimulatedDeath(error: unknown): boolean {
  return typeof MILLRACE_CRASH_POINTS !== "undefined" && MILLRACE_CRASH_POINTS && error instanceof Error && error.name === "SimulatedDeath";
}

/**
 * All crash points. `ofInstance` is true for a crash point that belongs to one instance. A function returns the names, so that a
 * deployment's bundle does not contain them.
 */
export function crashPoints(): ReadonlyMap<string, { readonly ofInstance: boolean }> {
  const all = (points: readonly string[], ofInstance: boolean) => points.map((point) => [point, { ofInstance }] as const);
  return new Map([...all(OF_INSTANCES, true), ...all(AROUND, false)]);
}

/** Runs workflow code, and records its instance and step for tests. In a bundle without crash points the function only runs the code. */
export function asCodeOf<T>(code: CodeAtWork, run: () => T): T {
  return typeof MILLRACE_CRASH_POINTS !== "undefined" && MILLRACE_CRASH_POINTS ? codes.run(code, run) : run();
}

/** Records data about the running attempt, for tests. */
export function noteEffect(effect: Pick<CodeAtWork, "class" | "key" | "asks">): void {
  if (typeof MILLRACE_CRASH_POINTS !== "undefined" && MILLRACE_CRASH_POINTS) Object.assign(codes.getStore() ?? {}, effect);
}

/** The workflow code that calls this function; undefined if no workflow code calls it. */
export function codeAtWork(): CodeAtWork | undefined {
  return codes.getStore();
}

/** The duration of a pause in milliseconds, shortened if a test skips pauses. */
export function pauseMs(ms: number): number {
  const skips = typeof MILLRACE_CRASH_POINTS !== "undefined" && MILLRACE_CRASH_POINTS && globalThis.millraceSkipsPauses === true;
  return skips ? Math.min(ms, 1) : ms;
}
