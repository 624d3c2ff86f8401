import { type Issue, MillraceError } from "./errors.ts";
import { isBeyondJson, shortened } from "./text.ts";

/** What the door lets in. A body past one of these is refused before anything is parsed further or stored. */
export const INTAKE_LIMITS = {
  /** Bytes of one command as it arrives over HTTP. */
  maxBytes: 4 * 1024 * 1024,
  /** Levels of nesting. JSON.parse takes thousands; `queue.send` and `create` overflow on them. */
  maxDepth: 64,
  /** Keys and array items in all. */
  maxKeys: 50_000,
} as const;

const FORBIDDEN_KEYS = new Set(["__proto__", "constructor", "prototype"]);

/**
 * Parses a body from outside, or refuses it: nothing of it is dropped or replaced. Errors: `payload_too_large` (413), `invalid_json`,
 * `invalid_payload` with the path of what is too much, comes twice in one object, or holds the character NUL, where SQL's functions take a
 * text to end (`nul`: true leaves that to whoever reads the items one by one).
 */
export function parseBounded(text: string, maxBytes: number = INTAKE_LIMITS.maxBytes, { nul = false } = {}): unknown {
  if (byteLength(text) > maxBytes) {
    throw new MillraceError(
      "payload_too_large",
      `The body is larger than ${maxBytes} bytes. Store it yourself and send a reference to it.`,
    );
  }
  const { fields } = assertFewItems(text);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new MillraceError("invalid_json", "The body is not JSON. Send one JSON object with `Content-Type: application/json`.");
  }
  const kept = assertBounded(value, { nul: nul || !text.includes("\\u0000") });
  // The last of two equal keys is what the parser keeps.
  if (kept.fields < fields) refuse({ path: doubledKey(text), message: "is there twice: send one of the two" });
  return value;
}

/**
 * Refuses values nested deeper, or holding more keys, than the limits, keys that could reach a prototype, and what has no JSON of its own: half
 * characters, and numbers that are not finite (JSON's 1e999 is read as one). `within`: how many levels the value will stand below the body
 * that carries it, because that is what the next door measures; `at`: what it is called; `nul`: false refuses the character NUL as well.
 * Iterative, so depth cannot overflow it. Answers how many fields its objects have. Errors: `invalid_payload` with the path.
 */
export function assertBounded(root: unknown, { within = 0, at: path = "", nul = true } = {}): { fields: number } {
  const pending: { value: unknown; path: string; depth: number }[] = [{ value: root, path, depth: within }];
  let keys = 0;
  let fields = 0;
  for (let at = pending.pop(); at; at = pending.pop()) {
    if (typeof at.value === "string" && !at.value.isWellFormed())
      refuse({ path: at.path, message: "half of a surrogate pair: send well-formed Unicode" });
    if (!nul && typeof at.value === "string" && at.value.includes("\0")) refuse({ path: at.path, message: NUL });
    if (isBeyondJson(at.value))
      refuse({
        path: at.path,
        message: `${String(at.value).slice(0, 40)}, which is no number in JSON: send a finite one, or send it as text`,
      });
    if (typeof at.value !== "object" || at.value === null) continue;
    if (at.depth >= INTAKE_LIMITS.maxDepth) {
      refuse({ path: at.path, message: `nested deeper than ${INTAKE_LIMITS.maxDepth} levels: flatten it or send it as one string` });
    }
    if (Array.isArray(at.value) && at.value.length > INTAKE_LIMITS.maxKeys) {
      refuse({ path: at.path, message: `more than ${INTAKE_LIMITS.maxKeys} items, holes included: send the data by reference` });
    }
    for (const [key, value] of Object.entries(at.value)) {
      const path = at.path ? `${at.path}.${key}` : key;
      if (!key.isWellFormed()) refuse({ path, message: "a key with half of a surrogate pair: send well-formed Unicode" });
      if (!nul && key.includes("\0")) refuse({ path, message: NUL });
      if (FORBIDDEN_KEYS.has(key)) refuse({ path, message: `the key "${key}" is not allowed: rename it` });
      if (++keys > INTAKE_LIMITS.maxKeys) refuse({ path, message: `more than ${INTAKE_LIMITS.maxKeys} keys: send the data by reference` });
      pending.push({ value, path, depth: at.depth + 1 });
    }
    if (!Array.isArray(at.value)) fields += Object.keys(at.value).length;
  }
  return { fields };
}

const NUL = "contains the character NUL: remove it";

/** UTF-8 bytes of a text: what the platform's limits count. */
export function byteLength(text: string): number {
  return Buffer.byteLength(text, "utf8");
}

function refuse({ path, message }: Issue): never {
  const issue = { path: shortened(path, 300), message: shortened(message, 300) };
  throw new MillraceError("invalid_payload", `Refused at ${shortened(path, 200) || "the root"}: ${issue.message}.`, { issues: [issue] });
}

const [QUOTE, BACKSLASH, COMMA, COLON, SPACE] = [0x22, 0x5c, 0x2c, 0x3a, 0x20];
const OPENING: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSING: ReadonlySet<number> = new Set([0x5d, 0x7d]);

/**
 * Refuses by its text alone what holds more keys or levels than the limits: a value takes many times the memory of its text, so it is
 * counted before it is made. Answers how many fields are written in it.
 */
export function assertFewItems(text: string): { fields: number } {
  let items = 0;
  let fields = 0;
  let depth = 0;
  let isFirst = false;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit <= SPACE) continue;
    // What stands behind an opening bracket is its first item, unless it is the closing one; each comma announces another.
    if (unit === COMMA || (isFirst && !CLOSING.has(unit))) items++;
    isFirst = OPENING.has(unit);
    if (isFirst) depth++;
    else if (CLOSING.has(unit)) depth--;
    else if (unit === QUOTE) at = endOfString(text, at);
    else if (unit === COLON) fields++;
    if (items > INTAKE_LIMITS.maxKeys) refuse({ path: "", message: `more than ${INTAKE_LIMITS.maxKeys} keys: send the data by reference` });
    if (depth > INTAKE_LIMITS.maxDepth) {
      refuse({ path: "", message: `nested deeper than ${INTAKE_LIMITS.maxDepth} levels: flatten it or send it as one string` });
    }
  }
  return { fields };
}

/** The path of the first key that is there twice, in a text that is JSON. */
function doubledKey(text: string): string {
  const open: { keys: Set<string>; at: string }[] = [];
  let key = "";
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    const inner = open.at(-1);
    if (unit === QUOTE) {
      const end = endOfString(text, at);
      if (open.length > 0) key = text.slice(at, end + 1);
      at = end;
    } else if (OPENING.has(unit)) open.push({ keys: new Set(), at: "0" });
    else if (CLOSING.has(unit)) open.pop();
    else if (unit === COMMA && inner) inner.at = String(Number(inner.at) + 1);
    else if (unit === COLON && inner) {
      inner.at = JSON.parse(key) as string;
      if (inner.keys.has(inner.at)) return open.map((one) => one.at).join(".");
      inner.keys.add(inner.at);
    }
  }
  return "";
}

/** Where the string ends that begins here. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) return at;
    if (unit === BACKSLASH) at++;
  }
  return text.length;
}
