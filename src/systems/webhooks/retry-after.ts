/** The longest a receiver can put us off. */
const MAX_MS = 3_600_000;
/** `Retry-After: 0` must not burn all attempts at once. */
const MIN_MS = 1000;

/**
 * Milliseconds that a `Retry-After` asks for: seconds, or an HTTP date. At least a second, at most an hour; undefined when it says nothing
 * readable.
 */
export function putOffMs(value: string | null, now: number): number | undefined {
  const text = value?.trim();
  if (!text) return undefined;
  const asked = /^\d+$/.test(text) ? Number(text) * 1000 : /^[A-Za-z]/.test(text) ? Date.parse(text) - now : Number.NaN;
  return Number.isNaN(asked) ? undefined : Math.min(Math.max(asked, MIN_MS), MAX_MS);
}
