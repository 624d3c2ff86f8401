import { type Issue, MillraceError } from "./errors.ts";
import { type Counted, countItems, doubledKey, itemsIn, pathAt } from "./json-text.ts";
import { isBeyondJson, shortened } from "./text.ts";

/** Limits of a request body. A larger body is refused before further parsing or storage. */
export const INTAKE_LIMITS = {
  /** Maximum bytes of one command over HTTP. */
  maxBytes: 4 * 1024 * 1024,
  /**
   * Maximum levels of nesting. JSON.parse accepts thousands of levels, but `queue.send` and `create` overflow the stack with so many
   * levels.
   */
  maxDepth: 64,
  /** Maximum number of keys and array items in total. */
  maxKeys: 50_000,
} as const;

const FORBIDDEN_KEYS = new Set(["__proto__", "constructor", "prototype"]);

/** A list in a request body that gets one result per item. */
export interface Items {
  /** The list's key in the body; "" when the body is the list itself. */
  key: string;
  /** Items above this number are not checked individually. */
  most: number;
  /** The prefix of a path in an item's own error; default: none. */
  at?: (index: number) => string;
}

/**
 * Parses a request body strictly, so that no part of the body is dropped or replaced. Errors: `payload_too_large` (413), `invalid_json`,
 * `invalid_payload` with the path of a value above the limits, a duplicate key, a number that parsing would change, or the character NUL,
 * where SQL's functions end a string. With `items`, each refused item of the list is replaced by its error, and all valid items are
 * returned.
 */
export function parseBounded(text: string, maxBytes: number = INTAKE_LIMITS.maxBytes, items?: Items): unknown {
  if (byteLength(text) > maxBytes) {
    throw new MillraceError(
      "payload_too_large",
      `The body is larger than ${maxBytes} bytes. Store it yourself and send a reference to it.`,
    );
  }
  try {
    return parseWhole(text);
  } catch (error) {
    if (!items || !(error instanceof MillraceError) || error.code !== "invalid_payload") throw error;
    return parseEach(text, items, error);
  }
}

function parseWhole(text: string, at = ""): unknown {
  const { fields, altered } = assertFewItems(text, { at });
  const value = parseJson(text);
  if (altered) {
    const message = `${shortened(altered.written, 40)}, which ${readAs(Number(altered.written))}: send it as text`;
    refuse({ path: below(at, pathAt(text, altered.at)), message });
  }
  const kept = assertBounded(value, { at, nul: !text.includes("\\u0000") });
  // JSON.parse keeps the last of two equal keys.
  if (kept.fields < fields) refuse({ path: below(at, doubledKey(text)), message: "occurs twice: send it once" });
  return value;
}

/**
 * Describes how parsing changes a number. Above the safe integers, even an unchanged number cannot be distinguished from its neighbours.
 */
function readAs(read: number): string {
  if (Number.isFinite(read) && Math.abs(read) > Number.MAX_SAFE_INTEGER) {
    return `is beyond ±${Number.MAX_SAFE_INTEGER}, where whole numbers lose precision`;
  }
  return `would be read as ${read}`;
}

/** Parses a request body with a list, with an error in place of each refused item. Throws for a problem outside the items. */
function parseEach(text: string, { key, most, at = () => "" }: Items, error: MillraceError): unknown {
  assertFewItems(text, { maxDepth: Number.POSITIVE_INFINITY });
  parseJson(text);
  const found = itemsIn(text, key);
  if (found.length === 0 || found.length > most) throw error;
  const around = [0, ...found.map(({ end }) => end)].map((from, index) => text.slice(from, found[index]?.start));
  const body = parseWhole(around.join("null")) as Record<string, unknown[]> & unknown[];
  const list = key === "" ? body : (body[key] as unknown[]);
  for (const [index, { start, end }] of found.entries()) list[index] = valueOrError(() => parseWhole(text.slice(start, end), at(index)));
  return body;
}

function valueOrError(read: () => unknown): unknown {
  try {
    return read();
  } catch (error) {
    if (error instanceof MillraceError) return error;
    throw error;
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new MillraceError("invalid_json", "The body is not JSON. Send one JSON object with `Content-Type: application/json`.");
  }
}

function below(at: string, path: string): string {
  return at && path ? `${at}.${path}` : at || path;
}

/**
 * Refuses values above the limits of nesting and keys, keys that could reach a prototype, and values without JSON: half surrogate pairs,
 * and numbers that are not finite (JSON's 1e999 parses as Infinity). The scan is iterative, so that depth cannot overflow the stack.
 * Returns the number of fields.
 *
 * `within`: the levels of nesting above the value in its message, because the platform measures the message. `at`: the path's prefix.
 * `nul`: false also refuses the character NUL. Errors: `invalid_payload` with the path.
 */
export function assertBounded(root: unknown, { within = 0, at: path = "", nul = true } = {}): { fields: number } {
  const said = mistakeIn(root, nul);
  if (said !== undefined) refuse({ path, message: said });
  const pending = isObject(root) ? [{ value: root, path, depth: within }] : [];
  let keys = 0;
  let fields = 0;
  for (let at = pending.pop(); at; at = pending.pop()) {
    if (at.depth >= INTAKE_LIMITS.maxDepth) {
      refuse({ path: at.path, message: `nested deeper than ${INTAKE_LIMITS.maxDepth} levels: flatten it or send it as one string` });
    }
    if (Array.isArray(at.value) && at.value.length > INTAKE_LIMITS.maxKeys) {
      refuse({ path: at.path, message: `more than ${INTAKE_LIMITS.maxKeys} items, holes included: send the data by reference` });
    }
    const entries = Object.entries(at.value);
    if (!Array.isArray(at.value)) fields += entries.length;
    else if (entries.length < at.value.length) {
      const hole = at.value.findIndex((_, index) => !(index in at.value));
      if (hole >= 0) refuse({ path: below(at.path, String(hole)), message: UNDEFINED_ITEM });
    }
    for (const [key, value] of entries) {
      const tooMany = ++keys > INTAKE_LIMITS.maxKeys ? TOO_MANY_KEYS : undefined;
      const absent = value === undefined && Array.isArray(at.value) ? UNDEFINED_ITEM : undefined;
      const said = mistakeInKey(key, nul) ?? tooMany ?? absent ?? mistakeIn(value, nul);
      // Paths are built only for refused values, and for values with fields.
      if (said !== undefined) refuse({ path: below(at.path, key), message: said });
      if (isObject(value)) pending.push({ value, path: below(at.path, key), depth: at.depth + 1 });
    }
  }
  return { fields };
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function mistakeInKey(key: string, nul: boolean): string | undefined {
  if (!key.isWellFormed()) return "a key with half of a surrogate pair: send well-formed Unicode";
  if (!nul && key.includes("\0")) return NUL;
  return FORBIDDEN_KEYS.has(key) ? `the key "${key}" is not allowed: rename it` : undefined;
}

/** The problem of a JSON value itself, without its fields; undefined if there is none. */
function mistakeIn(value: unknown, nul: boolean): string | undefined {
  if (typeof value !== "string") {
    return isBeyondJson(value)
      ? `${String(value).slice(0, 40)}, which is no number in JSON: send a finite one, or send it as text`
      : undefined;
  }
  if (!value.isWellFormed()) return "half of a surrogate pair: send well-formed Unicode";
  return !nul && value.includes("\0") ? NUL : undefined;
}

const NUL = "contains the character NUL: remove it";
const UNDEFINED_ITEM = "undefined, which JSON would change to null: send null, or leave it out of the list";
const TOO_MANY_KEYS = `more than ${INTAKE_LIMITS.maxKeys} keys: send the data by reference`;

/** The number of a string's UTF-8 bytes, by which the platform's limits are defined. */
export function byteLength(text: string): number {
  return Buffer.byteLength(text, "utf8");
}

function refuse({ path, message }: Issue): never {
  const issue = { path: shortened(path, 300), message: shortened(message, 300) };
  throw new MillraceError("invalid_payload", `Refused at ${shortened(path, 200) || "the root"}: ${issue.message}.`, { issues: [issue] });
}

/**
 * Refuses a JSON text above the limits of keys and nesting, without parsing it. Returns the number of fields, and the position of a number
 * that parsing would change.
 */
export function assertFewItems(
  text: string,
  { at = "", maxDepth = INTAKE_LIMITS.maxDepth }: { at?: string; maxDepth?: number } = {},
): Pick<Counted, "fields" | "altered"> {
  const counted = countItems(text, { items: INTAKE_LIMITS.maxKeys, depth: maxDepth });
  if (counted.items > INTAKE_LIMITS.maxKeys) {
    refuse({ path: at, message: `more than ${INTAKE_LIMITS.maxKeys} keys: send the data by reference` });
  }
  if (counted.depth > maxDepth) refuse({ path: at, message: `nested deeper than ${maxDepth} levels: flatten it or send it as one string` });
  return counted;
}
