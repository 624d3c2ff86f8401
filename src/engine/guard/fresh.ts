/**
 * A run younger than this cannot have run before: the platform takes longer to lose and restart one. Inside it a first
 * step needs no look into the inbox (a `keyed` upstream, which remembers the key for hours, would tell a repeat as well).
 */
export const FRESH_MS = 2000;

let lately = new Set<string>();
let before = new Set<string>();
let turnedAt = 0;

/** True for an instance that was created a moment ago and that this isolate has not passed through yet: then nothing is recorded of it. */
export function isFirstPass(instanceId: string, createdAt: Date | undefined): boolean {
  const at = Date.now();
  if (at - turnedAt > FRESH_MS) {
    before = lately;
    lately = new Set();
    turnedAt = at;
  }
  const known = lately.has(instanceId) || before.has(instanceId);
  lately.add(instanceId);
  return !known && createdAt !== undefined && at - createdAt.getTime() <= FRESH_MS;
}
