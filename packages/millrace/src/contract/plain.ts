import { messageOf } from "./error-words.ts";
import { beginning } from "./text.ts";

/** A value that JSON would silently change or omit, and its path. */
export interface Strange {
  /** A description of the value, such as `a Map`, `a function`, `NaN`, `an object of the class Money`. */
  readonly what: string;
  /** The dotted path of the value, such as `order.items.0`; "" for the value itself. */
  readonly at: string;
}

/**
 * Describes a value that JSON would change; undefined for any other value. `inList`: JSON writes null for an undefined item, but omits
 * an undefined field.
 */
type Judge = (value: unknown, inList: boolean) => string | undefined;

/**
 * The first value that JSON would not preserve: neither a plain object, an array nor a primitive (JSON turns a Map into {}, a Date into
 * text, and omits a function), or a value of `nulledIn`. Undefined if JSON preserves the whole value. The value must have no cycle.
 */
export function strangeIn(value: unknown): Strange | undefined {
  return firstIn(value, isStrange, false);
}

/**
 * The first value that JSON would write as null: NaN, Infinity, undefined in a list. Undefined if JSON writes no part of the value as
 * null. The value must have no cycle.
 */
function nulledIn(value: unknown): Strange | undefined {
  return firstIn(value, isNulled, false);
}

/** Matches the JSON escape of half of a surrogate pair. After an even number of backslashes, `\ud…` is such an escape. */
const HALF = /(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g;

/** The first string or key with half of a surrogate pair, which parsers of other languages refuse. */
export function halvedIn(json: string): Strange | undefined {
  return json.includes("\\ud") && json.search(HALF) >= 0 ? firstIn(JSON.parse(json), isHalved, false) : undefined;
}

/** A JSON text with U+FFFD in place of each half of a surrogate pair. */
export function withoutHalves(json: string): string {
  return json.replace(HALF, "$1\uFFFD");
}

/** A value as JSON text, or the reason why the value has no JSON. `why` continues a sentence: "has no JSON: …". */
export function jsonOf(value: unknown): { readonly text: string; readonly why?: never } | { readonly why: string; readonly text?: never } {
  try {
    const text: string | undefined = JSON.stringify(value);
    if (text === undefined) return { why: "send an object, a list, a text, a number, true, false or null" };
    const nulled = text.includes("null") ? nulledIn(value) : undefined;
    if (nulled === undefined) return { text };
    return { why: `it has ${nulled.what}${nulled.at && ` at "${beginning(nulled.at, 200)}"`}, which JSON would change to null` };
  } catch (cause) {
    return { why: messageOf(cause) };
  }
}

function firstIn(value: unknown, judge: Judge, inList: boolean): Strange | undefined {
  const what = judge(value, inList);
  if (what !== undefined) return { what, at: "" };
  if (typeof value !== "object" || value === null || (judge === isNulled && hasOwnJson(value))) return undefined;
  const isList = Array.isArray(value);
  const keys = isList ? undefined : Object.keys(value);
  const count = isList ? value.length : (keys?.length ?? 0);
  for (let index = 0; index < count; index++) {
    const key = keys?.[index] ?? index;
    const inner = (value as Record<string | number, unknown>)[key];
    if ((typeof inner === "string" && judge !== isHalved) || Number.isFinite(inner)) continue;
    const found = firstIn(inner, judge, isList);
    if (found) return { what: found.what, at: found.at ? `${key}.${found.at}` : String(key) };
  }
  return undefined;
}

const isNulled: Judge = (value, inList) => {
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (value instanceof Date && Number.isNaN(value.getTime())) return "an invalid Date";
  const isAbsent = value === undefined || typeof value === "function" || typeof value === "symbol";
  return inList && isAbsent ? (value === undefined ? "undefined" : `a ${typeof value}`) : undefined;
};

const isHalved: Judge = (value) => {
  const texts = typeof value === "string" ? [value] : typeof value === "object" && value !== null ? Object.keys(value) : [];
  return texts.every((text) => text.isWellFormed()) ? undefined : `half a character${typeof value === "string" ? "" : " in a name"}`;
};

const isStrange: Judge = (value, inList) => {
  if (typeof value === "function" || typeof value === "symbol") return `a ${typeof value}`;
  if (Array.isArray(value)) return Object.hasOwn(value, "groups") ? "the match of a RegExp" : undefined;
  if (typeof value === "object" && value !== null && !isPlain(value)) return nameOf(value);
  return isNulled(value, inList);
};

/** True for an object that defines its own JSON. The fields of such an object are not checked. */
function hasOwnJson(value: object): boolean {
  return "toJSON" in value && typeof value.toJSON === "function";
}

/** True for a plain object, even without a prototype or from another JavaScript realm. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function nameOf(value: object): string {
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name;
  if (typeof name !== "string" || name === "") return "an object of a class";
  return KNOWN.has(name) ? `a ${name}` : `an object of the class ${name.slice(0, 100)}`;
}

const KNOWN: ReadonlySet<string> = new Set(["Date", "Map", "Set", "Promise", "Response", "Headers", "URL"]);
