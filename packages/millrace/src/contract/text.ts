/**
 * The number of code points in a string, as schemas (zod's `max`, JSON Schema's `maxLength`) and SQL's `length` count them. All limits in
 * characters use this function. With UTF-16 units, the check in code and the check in a schema or SQL would differ.
 */
export function characterCount(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** The beginning of a string: at most `max` UTF-16 units, without half of a surrogate pair, which could be neither stored nor sent. */
export function beginning(text: string, max: number): string {
  const isWithin = text.length > max && isFirstHalf(text.charCodeAt(max - 1));
  return text.slice(0, isWithin ? max - 1 : max).toWellFormed();
}

/** A string shortened to `max` UTF-16 units for display. A shortened string ends with "…". */
export function shortened(text: string, max: number): string {
  return text.length <= max ? text.toWellFormed() : `${beginning(text, max - 1)}…`;
}

function isFirstHalf(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/**
 * Any value as JSON text. Numbers without JSON (NaN, Infinity, a BigInt) become strings, bytes base64, maps and sets lists, so that
 * different values do not all become `null` or `{}`. Throws for a cycle, or unbounded nesting.
 */
export function textOf(value: unknown): string {
  try {
    return JSON.stringify(value, (_, one) => sayable(one)) ?? "null";
  } catch {
    // JSON.stringify without a replacer function can serialize thousands of nested levels more.
    return JSON.stringify(value) ?? "null";
  }
}

function sayable(value: unknown): unknown {
  if (isBeyondJson(value)) return String(value);
  if (value instanceof ArrayBuffer) return { base64: Buffer.from(value).toString("base64") };
  if (ArrayBuffer.isView(value)) return { base64: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64") };
  return value instanceof Map || value instanceof Set ? [...value] : value;
}

export function isBeyondJson(value: unknown): boolean {
  return typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value));
}
