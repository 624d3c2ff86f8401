/**
 * The platform needs more than this time to restart a run in another existing process. Therefore the first step of a younger run needs no
 * read of the inbox. A `keyed` upstream, which remembers the key for hours, would detect a repetition as well.
 */
export const FRESH_MS = 2000;

let lately = new Set<string>();
let before = new Set<string>();
let turnedAt = 0;
/** Time of the first call in this isolate. An isolate that has ended may have replayed instances created before. */
let since: number | undefined;

/**
 * True for an instance that was created moments ago, in the lifetime of this isolate, and that it has not replayed yet: no record of it
 * exists.
 */
export function isFirstPass(instanceId: string, createdAt: Date | undefined): boolean {
  const at = Date.now();
  // The first call came while the clock was ahead: use the current time.
  since = Math.min(since ?? at, at);
  if (at - turnedAt > FRESH_MS || at < turnedAt) {
    before = lately;
    lately = new Set();
    turnedAt = at;
  }
  const known = lately.has(instanceId) || before.has(instanceId);
  lately.add(instanceId);
  return !known && createdAt !== undefined && createdAt.getTime() > since && at - createdAt.getTime() <= FRESH_MS;
}

/** True for a time before this isolate's first replay: the attempt began in another isolate, which may have ended. */
export function isOfBefore(at: number): boolean {
  return since === undefined || at < since;
}
