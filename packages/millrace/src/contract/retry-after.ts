const TIME = String.raw`\d{2}:\d{2}:\d{2}`;

/** The three forms of an HTTP date (RFC 9110, 5.6.7). `Date.parse` alone also reads `2.5` and `-5` as dates. */
const DATES = [
  new RegExp(`^[A-Z][a-z]{2}, \\d{2} [A-Z][a-z]{2} \\d{4} ${TIME} GMT$`),
  new RegExp(`^[A-Z][a-z]{5,8}, \\d{2}-[A-Z][a-z]{2}-\\d{2} ${TIME} GMT$`),
  new RegExp(`^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \\d]\\d ${TIME} \\d{4}$`),
];

/**
 * The delay of a `Retry-After` field in milliseconds (RFC 9110, 10.2.3): whole seconds, or an HTTP date. 0 for a past date. Undefined for a
 * missing or invalid field. A step always waits at least its own delay, so it is safe to pass 0 to `retryAfter`.
 */
export function retryAfterMs(field: string | null, now = Date.now()): number | undefined {
  const value = field?.trim() ?? "";
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  if (!DATES.some((form) => form.test(value))) return undefined;
  const at = Date.parse(value.endsWith("GMT") ? value : `${value} GMT`);
  return Number.isNaN(at) ? undefined : Math.max(at - now, 0);
}
