/**
 * The platform takes longer than this to lose a run in one process and begin it again in another that was there already. So a younger run's
 * first step needs no look into the inbox (a `keyed` upstream, which remembers the key for hours, would tell a repeat as well).
 */
export const FRESH_MS = 2000;

let lately = new Set<string>();
let before = new Set<string>();
let turnedAt = 0;
/** When this isolate was asked first: what was created before may have been passed through by one that died. */
let since: number | undefined;

/**
 * True for an instance that was created a moment ago, while this isolate lived, and that it has not passed through yet: then nothing is
 * recorded of it.
 */
export function isFirstPass(instanceId: string, createdAt: Date | undefined): boolean {
  const at = Date.now();
  // Asked first while the clock was ahead: it has been there since now at least.
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

/** True for what began before this isolate was asked for its first pass: it was begun in another, which may have died. */
export function isOfBefore(at: number): boolean {
  return since === undefined || at < since;
}
