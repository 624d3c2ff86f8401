/**
 * How many characters a text has: code points, as schemas (zod's `max`, JSON Schema's `maxLength`) and SQL's `length` count them. A limit
 * that is said in characters is held by this alone: by UTF-16 units, what one door takes would be refused by the next.
 */
export function characterCount(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/**
 * The beginning of a text: at most so many UTF-16 units, and whole characters only. Half of a surrogate pair has no UTF-8, so it could
 * be neither stored nor sent.
 */
export function beginning(text: string, max: number): string {
  const isWithin = text.length > max && isFirstHalf(text.charCodeAt(max - 1));
  return text.slice(0, isWithin ? max - 1 : max).toWellFormed();
}

/** The same for people: what is longer ends with "…". */
export function shortened(text: string, max: number): string {
  return text.length <= max ? text.toWellFormed() : `${beginning(text, max - 1)}…`;
}

function isFirstHalf(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/**
 * Anything as JSON text. Numbers that JSON has no word for (NaN, Infinity, a BigInt) are written as texts, bytes as base64, maps and sets
 * as lists, so that two that differ are not both `null` or `{}`. Throws for what has no text: a cycle, or nesting without end.
 */
export function textOf(value: unknown): string {
  try {
    return JSON.stringify(value, (_, one) => sayable(one)) ?? "null";
  } catch {
    // Without a function to ask, thousands of levels more have a text.
    return JSON.stringify(value) ?? "null";
  }
}

function sayable(value: unknown): unknown {
  if (isBeyondJson(value)) return String(value);
  if (value instanceof ArrayBuffer) return { base64: Buffer.from(value).toString("base64") };
  if (ArrayBuffer.isView(value)) return { base64: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64") };
  return value instanceof Map || value instanceof Set ? [...value] : value;
}

/** True for a number that JSON has no word for. */
export function isBeyondJson(value: unknown): boolean {
  return typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value));
}
