import { jsonOf } from "../../providers/index.ts";

/** Maximum scanned characters per character of a text, so that a hostile text is read in linear time. */
const EFFORT = 8;
/** Maximum characters between a fence and its object: the language's name and white space. */
const FENCE_CHARACTERS = 40;
const FENCE = /(?:`{3,}|~{3,})[\w-]*\s*$/;

/**
 * The result of a search for JSON: a value that fits, otherwise the first problem that `read` reported. The result is undefined if the text
 * contains no JSON.
 */
export type Found<Value, Problem> = { value: Value } | { problem: Problem } | undefined;

/**
 * Finds the JSON value in a model's text, by a reader that validates it. The function tries in order: the whole text, the text after the
 * last `</think>`, the last object in a fence, the last object. The search ignores reasoning, prose with braces, and code.
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
    // A text that begins with a list contains another kind of JSON; the list is not searched.
    if (part.startsWith("[") && problem) return problem;
  }
  return lastObject(answer, tried) ?? (answer === text ? undefined : lastObject(text, tried)) ?? problem;
}

/** Returns a text without the reasoning that some servers put before it. */
export function behindReasoning(text: string): string {
  const end = text.lastIndexOf("</think>");
  return end < 0 ? text : text.slice(end + "</think>".length).trim();
}

/** Finds the last object that fits: in a fence, or else anywhere. The search runs from the end, so text before it costs nothing. */
function lastObject<Fit>(text: string, tried: (part: string) => Fit | undefined): Fit | undefined {
  let last: Fit | undefined;
  let effort = text.length * EFFORT;
  for (let from = text.lastIndexOf("{"); from >= 0 && effort > 0; from = from === 0 ? -1 : text.lastIndexOf("{", from - 1)) {
    const { end, isWhole } = endOfObject(text, from);
    // The object costs one scan, and a second one for parsing if it is complete.
    effort -= (isWhole ? 2 : 1) * (end - from);
    const fit = isWhole ? tried(text.slice(from, end)) : undefined;
    if (fit !== undefined && FENCE.test(text.slice(Math.max(0, from - FENCE_CHARACTERS), from))) return fit;
    last ??= fit;
  }
  return last;
}

const BEGINNING = /\{\s*["}]/y;

/**
 * Returns the end of the object that begins here, or the position that shows that it is no object. Braces in the object's strings do not
 * count.
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
