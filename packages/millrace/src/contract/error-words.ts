import { beginning, shortened, textOf } from "./text.ts";

/**
 * Maximum characters of a stored error message. The platform accepts an error with this many characters, a name, a code and the platform's
 * own prefix.
 */
export const KEPT_ERROR_CHARACTERS = 50_000;

/**
 * The message of any thrown value, followed by those messages of its causes and nested errors that it does not contain. Never throws, even
 * for an object without a prototype or with a throwing getter. At most 50,000 characters in addition to the message.
 */
export function messageOf(thrown: unknown): string {
  return messageBeside(thrown, "") || nameOf(thrown);
}

/** The part of a thrown value's messages that `text`, which is shown beside the part, does not contain; "" if there is none. */
export function messageBeside(thrown: unknown, text: string): string {
  return wordsOf(thrown, text, new Set());
}

/** Maximum number of messages shown for an error with nested errors and causes. */
const MAX_ERRORS_SAID = 8;
/** Maximum number of directly nested errors whose messages are shown. */
const MAX_HELD_SAID = 3;
/** Maximum length of the chain in which the innermost cause is searched. */
const MAX_CAUSES = 100;
/** Error messages with this many equal first characters count as the same message, because one of the messages may be shortened. */
const ALIKE_CHARACTERS = 100;
/** Maximum characters of an error message that are shown. A long message leaves room for its causes. */
const SHOWN_CHARACTERS = 1000;

/**
 * A string in the form in which the platform transmits a string in an error: cut at a NUL, trimmed, and without half of a surrogate pair.
 */
const asSent = (text: string) => text.toWellFormed().replaceAll("\0", "\uFFFD").trim();

/** The messages of an error that `outer` does not contain, in at most `room` characters. */
function wordsOf(thrown: unknown, outer: string, seen: Set<unknown>, room = SHOWN_CHARACTERS): string {
  if (seen.has(thrown)) return "";
  seen.add(thrown);
  const own = asSent(ownWordsOf(thrown));
  const isKnown = own === "" || holdsWords(outer, own.slice(0, ALIKE_CHARACTERS));
  const left = isKnown ? room : room - Math.min(own.length, ALIKE_CHARACTERS) - 2;
  const within = beginning(withinOf(thrown, `${outer}\n${own}`, seen, left), KEPT_ERROR_CHARACTERS);
  if (isKnown) return within;
  if (within === "") return own;
  const said = beforeWords(own, within.length + 2, room);
  return `${said}${/[.:!?…]$/.test(said) ? " " : ": "}${within}`;
}

/** Shortens an error message so that `next` further characters can be appended. */
export function beforeWords(text: string, next: number, room = SHOWN_CHARACTERS): string {
  return shortened(text, Math.max(ALIKE_CHARACTERS, room - next));
}

/** The messages of nested errors and of the cause, and the number of omitted messages. */
function withinOf(thrown: unknown, outer: string, seen: Set<unknown>, room: number): string {
  const { held, cause } = heldBy(thrown);
  const words: string[] = [];
  let left = 0;
  for (const [index, one] of held.entries()) {
    if (index >= MAX_HELD_SAID || seen.size >= MAX_ERRORS_SAID) left++;
    else words.push(wordsOf(one, outer, seen, room));
  }
  // If an error has too many causes, the innermost cause is shown, because the innermost cause is the origin of the failure.
  const causes = seen.size < MAX_ERRORS_SAID - 1 ? [cause] : causesFrom(cause, seen);
  const last = seen.size < MAX_ERRORS_SAID ? causes.pop() : undefined;
  left += causes.length;
  if (left > 0) words.push(`and ${left} more`);
  if (last !== undefined) words.push(wordsOf(last, outer, seen, room));
  return words.filter(Boolean).join("; ");
}

/** A cause of an error, the cause's own cause, and so on to the innermost cause. */
function causesFrom(cause: unknown, seen: ReadonlySet<unknown>): unknown[] {
  const causes = new Set<unknown>();
  for (let one = cause; one !== undefined && !seen.has(one) && !causes.has(one) && causes.size < MAX_CAUSES; ) {
    causes.add(one);
    one = heldBy(one).cause;
  }
  return [...causes];
}

/** True if a string contains the given words as whole words: `a` is not in `came`. */
function holdsWords(text: string, words: string): boolean {
  const at = text.indexOf(words);
  const end = at + words.length;
  const isWhole = (place: number) => !/^\w\w$/.test(text.slice(place - 1, place + 1));
  return at >= 0 && (at === 0 || isWhole(at)) && (words.length === ALIKE_CHARACTERS || isWhole(end));
}

function ownWordsOf(thrown: unknown): string {
  try {
    if (thrown instanceof Error) return String(thrown.message);
    if (thrown instanceof Response) return `HTTP ${thrown.status} ${thrown.statusText}`.trim();
    return beginning(isObject(thrown) ? textOfObject(thrown) : String(thrown), KEPT_ERROR_CHARACTERS);
  } catch {
    return "";
  }
}

/** Libraries also throw plain objects, such as `{ message, code }`, `{ error: { message } }` and `{ errors: [{ message }] }`. */
function textOfObject(thrown: object & { message?: unknown; error?: unknown; errors?: unknown }): string {
  const { message, error, errors } = thrown;
  if (typeof message === "string" && message !== "") return message;
  if (typeof error === "string") return error;
  if (error instanceof Error || isMessage(error) || (Array.isArray(errors) && errors.length > 0)) return "";
  const text = typeof thrown === "function" || Array.isArray(thrown) || hasNoText(thrown) ? textOf(thrown) : String(thrown);
  return text === "{}" || text === "null" ? "" : text;
}

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;
const isMessage = (value: unknown) => isObject(value) && "message" in value && typeof value.message === "string";
const hasNoText = (value: object) => typeof value.toString !== "function" || value.toString === Object.prototype.toString;

/** The nested errors and the cause of an error. */
function heldBy(thrown: unknown): { readonly held: readonly unknown[]; readonly cause?: unknown } {
  try {
    if (!isObject(thrown)) return { held: [] };
    const { errors, error, cause } = thrown as { errors?: unknown; error?: unknown; cause?: unknown };
    const held: unknown[] = Array.isArray(errors) ? errors : [];
    const isWrapped = !(thrown instanceof Error) && isObject(error);
    return { held: isWrapped ? [...held, error] : held, cause: cause ?? undefined };
  } catch {
    return { held: [] };
  }
}

/** The text for an error without a message: the error's class name. */
function nameOf(thrown: unknown): string {
  try {
    const name: unknown = isObject(thrown) ? (thrown instanceof Error && thrown.name) || thrown.constructor?.name : undefined;
    if (typeof name === "string" && name !== "") return thrown instanceof Error ? name : `A thrown ${name} that has no text.`;
  } catch {
    // A getter of the thrown object has thrown.
  }
  return `A thrown ${typeof thrown} that has no text.`;
}

/**
 * Returns the cause of an error itself if Workers RPC can transmit it, otherwise a plain error with the cause's name and message. The
 * cause of the cause is converted in the same way.
 */
export function carried(cause: unknown, depth = 0): unknown {
  try {
    if (isCarriable(cause, new Set())) return cause;
    const said = messageOf(cause);
    if (!(cause instanceof Error) || depth === MAX_ERRORS_SAID) return new Error(said);
    const { name, stack } = cause;
    return Object.assign(new Error(said, { cause: carried(cause.cause, depth + 1) }), { name: String(name), stack: String(stack) });
  } catch {
    return new Error(messageOf(cause));
  }
}

/** RPC drops all properties of an error if one property contains a function, a symbol, a promise, a cycle or most platform objects. */
function isCarriable(value: unknown, path: Set<unknown>, left = { values: MAX_CARRIED }): boolean {
  if (!isObject(value)) return typeof value !== "function" && typeof value !== "symbol";
  if (path.has(value) || left.values-- === 0) return false;
  if (value instanceof Date || value instanceof RegExp || value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return true;
  path.add(value);
  const inner = value instanceof Map || value instanceof Set ? [...value].flat() : ownValuesOf(value);
  const isFit = inner?.every((one) => isCarriable(one, path, left)) ?? false;
  path.delete(value);
  return isFit;
}

/** The own values of an error, a list or a plain object; undefined for an object of any other class. */
function ownValuesOf(value: object): unknown[] | undefined {
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = prototype === null || prototype === Object.prototype || Array.isArray(value) || value instanceof Error;
  return isPlain ? Object.getOwnPropertyNames(value).map((name) => (value as Record<string, unknown>)[name]) : undefined;
}

/** Maximum number of inspected objects in a cause. */
const MAX_CARRIED = 1000;
