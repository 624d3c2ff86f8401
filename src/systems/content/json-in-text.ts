import { jsonOf } from "../../providers/index.ts";

/** Maximum number of scanned characters for each character of a text. The limit keeps the time linear for a hostile text. */
const EFFORT = 8;
/**
 * Maximum number of characters between the start of a code fence and the object in it. These characters are the language's name and white
 * space.
 */
const FENCE_CHARACTERS = 40;
const FENCE = /(?:`{3,}|~{3,})[\w-]*\s*$/;

/**
 * The result of a search for JSON: a value that `read` accepts, or else the first problem that `read` reported. The result is undefined if
 * the text contains no JSON.
 */
export type Found<Value, Problem> = { value: Value } | { problem: Problem } | undefined;

/**
 * Finds the JSON value in a model's text. The function `read` validates each candidate. The function tries in order: the whole text, the
 * text after the last `</think>`, the last object in a fence, the last object. The search ignores reasoning, prose with braces, and code.
 */
export function jsonIn<Value, Problem>(
  text: string,
  read: (json: unknown) => { value: Value } | { problem: Problem },
): Found<Value, Problem> {
  let problem: { problem: Problem } | undefined;
  const tried = (part: string) => {
    const json = jsonOf(part);
    const found = json === undefined ? undefined : read(json);
    if (found && "problem" in found) problem ??= found;
    return found && "value" in found ? found : undefined;
  };
  const answer = behindReasoning(text);
  for (const part of answer === text ? [text] : [text, answer]) {
    const whole = tried(part);
    if (whole) return whole;
    // A text that begins with a list does not contain the expected JSON, so objects in the list are not tried.
    if (part.startsWith("[") && problem) return problem;
  }
  return lastObject(answer, tried) ?? (answer === text ? undefined : lastObject(text, tried)) ?? problem;
}

/** Returns a text without the reasoning that some servers put before it. */
export function behindReasoning(text: string): string {
  const end = text.lastIndexOf("</think>");
  return end < 0 ? text : text.slice(end + "</think>".length).trim();
}

/**
 * Finds the last valid object in a code fence, or else the last valid object anywhere. The search begins at the end of the text, so the
 * text before the object is not scanned.
 */
function lastObject<Fit>(text: string, tried: (part: string) => Fit | undefined): Fit | undefined {
  let last: Fit | undefined;
  let effort = text.length * EFFORT;
  for (let from = text.lastIndexOf("{"); from >= 0 && effort > 0; from = from === 0 ? -1 : text.lastIndexOf("{", from - 1)) {
    const { end, isWhole } = endOfObject(text, from);
    // Each object is scanned once, and a complete object is scanned a second time by the parser.
    effort -= (isWhole ? 2 : 1) * (end - from);
    const fit = isWhole ? tried(text.slice(from, end)) : undefined;
    if (fit !== undefined && FENCE.test(text.slice(Math.max(0, from - FENCE_CHARACTERS), from))) return fit;
    last ??= fit;
  }
  return last;
}

const BEGINNING = /\{\s*["}]/y;

/**
 * Returns the end of the object that begins here, or the position of the first character that cannot be part of an object. Braces in the
 * object's strings do not count.
 */
function endOfObject(text: string, from: number): { end: number; isWhole: boolean } {
  BEGINNING.lastIndex = from;
  if (!BEGINNING.test(text)) return { end: from + 1, isWhole: false };
  let depth = 0;
  let isString = false;
  for (let at = from; at < text.length; at++) {
    const one = text[at];
    if (isString) {
      if (one === "\\") at++;
      else if (one === '"') isString = false;
      // A line break inside a string is not valid JSON.
      else if (one === "\n") return { end: at, isWhole: false };
    } else if (one === '"') isString = true;
    else if (one === "{") depth++;
    else if (one === "}" && --depth === 0) return { end: at + 1, isWhole: true };
  }
  return { end: text.length, isWhole: false };
}
