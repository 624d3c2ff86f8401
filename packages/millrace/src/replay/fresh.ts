import { Recent } from "../contract/recent.ts";

/**
 * The platform needs more than this time, in milliseconds, to restart a run in another existing process. Therefore the first step of a run
 * that is younger than this time needs no read of the inbox. The upstream of a `keyed` effect remembers the key for hours, so the upstream
 * would also detect a repetition.
 */
export const FRESH_MS = 2000;

/** The instances that this isolate has replayed. */
const replayed = new Recent(FRESH_MS);
/**
 * Time of the first call in this isolate. Another isolate that has ended may have replayed instances that were created before this time.
 */
let since: number | undefined;

/**
 * True for an instance that was created moments ago, after the start of this isolate, and that this isolate has not replayed yet. Such an
 * instance has no inbox records.
 */
export function isFirstReplay(instanceId: string, createdAt: Date | undefined): boolean {
  const at = Date.now();
  // If the clock was ahead at the first call, the current time replaces the time of the first call.
  since = Math.min(since ?? at, at);
  const known = replayed.note(instanceId, "") !== undefined;
  return !known && createdAt !== undefined && createdAt.getTime() > since && at - createdAt.getTime() <= FRESH_MS;
}

/**
 * True for a time before this isolate's first replay. An attempt that began at such a time began in another isolate, which may have ended.
 */
export function isOfBefore(at: number): boolean {
  return since === undefined || at < since;
}
