const [QUOTE, BACKSLASH, COMMA, COLON, SPACE, MINUS, ZERO, NINE] = [0x22, 0x5c, 0x2c, 0x3a, 0x20, 0x2d, 0x30, 0x39];

function isOpening(unit: number): boolean {
  return unit === 0x5b || unit === 0x7b;
}

function isClosing(unit: number): boolean {
  return unit === 0x5d || unit === 0x7d;
}

/** The counts of items and levels in a JSON text. */
export interface Counted {
  /** Number of items of arrays and fields of objects. Counting ends above the maximum. */
  items: number;
  /** Number of nested levels. Counting ends above the maximum. */
  depth: number;
  fields: number;
  /** The first number that parsing would change. */
  altered: { at: number; written: string } | undefined;
}

/** Counts the items of a JSON text before it is parsed, because a parsed value takes many times the memory of its text. */
export function countItems(text: string, most: { items: number; depth: number }): Counted {
  const counted: Counted = { items: 0, depth: 0, fields: 0, altered: undefined };
  let depth = 0;
  let isFirst = false;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit <= SPACE) continue;
    // After an opening bracket an item follows, unless a closing bracket does. After each comma another item follows.
    if (unit === COMMA || (isFirst && !isClosing(unit))) counted.items++;
    isFirst = isOpening(unit);
    if (isFirst) depth++;
    else if (isClosing(unit)) depth--;
    else if (unit === QUOTE) at = endOfString(text, at);
    else if (unit === COLON) counted.fields++;
    else if (isNumeric(unit)) {
      const end = endOfNumber(text, at);
      if (counted.altered === undefined && isAltered(text, at, end)) counted.altered = { at, written: text.slice(at, end) };
      at = end - 1;
    }
    if (depth > counted.depth) counted.depth = depth;
    if (counted.items > most.items || depth > most.depth) break;
  }
  return counted;
}

/** The path of the value at the given position in a JSON text. */
export function pathAt(text: string, place: number): string {
  return firstPath(text, (at) => at === place);
}

/** The path of the first duplicate key in a JSON text. */
export function doubledKey(text: string): string {
  return firstPath(text, (_, { isDoubled }) => isDoubled);
}

/**
 * The positions of the items of the array under this key of an object; `key` is "" if the text itself is the array. The text must be
 * JSON.
 */
export function itemsIn(text: string, key: string): { start: number; end: number }[] {
  const found: { start: number; end: number }[] = [];
  const levels = key === "" ? 1 : 2;
  walk(text, (at, { open, unit }) => {
    const [outer, list = outer] = open;
    const isThere = open.length === levels && list?.isArray && (key === "" || (!outer?.isArray && outer?.at === key));
    if (!isThere || !(unit === COMMA || isClosing(unit))) return false;
    if (text.slice(list.from, at).trim() !== "") found.push({ start: list.from, end: at });
    list.from = at + 1;
    return false;
  });
  return found;
}

/** An object or array in the text that is not closed yet. */
interface Level {
  isArray: boolean;
  keys: Set<string>;
  /** The key or index of the item that is being read. */
  at: string;
  /** The position where that item begins. */
  from: number;
}

interface Seen {
  unit: number;
  open: Level[];
  isDoubled: boolean;
}

function firstPath(text: string, isIt: (at: number, seen: Seen) => boolean): string {
  let path = "";
  walk(text, (at, seen) => {
    const found = isIt(at, seen);
    if (found) path = seen.open.map((level) => level.at).join(".");
    return found;
  });
  return path;
}

/** Scans a JSON text until `visit` returns true. A closing bracket is visited before its level is left. */
function walk(text: string, visit: (at: number, seen: Seen) => boolean): void {
  const open: Level[] = [];
  let key = "";
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    const inner = open.at(-1);
    let isDoubled = false;
    if (unit === COLON && inner) {
      inner.at = JSON.parse(key) as string;
      isDoubled = inner.keys.has(inner.at);
      inner.keys.add(inner.at);
    }
    if (visit(at, { unit, open, isDoubled })) return;
    if (unit === QUOTE) {
      const end = endOfString(text, at);
      if (inner && !inner.isArray) key = text.slice(at, end + 1);
      at = end;
    } else if (isOpening(unit)) open.push({ isArray: unit === 0x5b, keys: new Set(), at: "0", from: at + 1 });
    else if (isClosing(unit)) open.pop();
    else if (unit === COMMA && inner?.isArray) inner.at = String(Number(inner.at) + 1);
  }
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) return at;
    if (unit === BACKSLASH) at++;
  }
  return text.length;
}

function isNumeric(unit: number): boolean {
  return (unit >= ZERO && unit <= NINE) || unit === MINUS;
}

/** The position after a number that starts at `start`: digits, signs, a point, an exponent. */
function endOfNumber(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && (isNumeric(text.charCodeAt(at)) || ".eE+".includes(text.charAt(at)))) at++;
  return at;
}

/** A number with up to this many digits parses without a change, wherever its decimal point is. */
const SAFE_DIGITS = 15;
/** JavaScript writes a number of this size or larger with an exponent. */
const LARGEST_PLAIN = 1e21;

/** True for a number that parsing would change: an integer beyond the precision of doubles, or a nonzero number that becomes zero. */
function isAltered(text: string, start: number, end: number): boolean {
  const isShort = end - start <= SAFE_DIGITS;
  const written = isShort && !hasExponent(text, start, end) ? undefined : text.slice(start, end);
  if (written === undefined) return false;
  const size = Math.abs(Number(written));
  if (size === 0) return /[1-9]/.test(written.split(/e/i, 1)[0] ?? "");
  // A number that is read as infinite is reported by a separate check.
  if (size <= Number.MAX_SAFE_INTEGER || size === Number.POSITIVE_INFINITY) return false;
  return size < LARGEST_PLAIN || !/e/i.test(written);
}

function hasExponent(text: string, start: number, end: number): boolean {
  for (let at = start; at < end; at++) if ((text.charCodeAt(at) | 0x20) === 0x65) return true;
  return false;
}
