import type * as z from "zod";
import { holdsMarks, REDACTED, redact } from "./redact.ts";

/** Hides in any value the texts that were withheld elsewhere. */
export type Hide = <T>(value: T) => T;

/** Shorter ones are no secret by themselves, and would be found everywhere. */
const LEAST_CHARACTERS = 4;
/** More than these are not looked for one by one: the value is withheld. */
const MAX_TEXTS = 1000;
/** A text as long as this may have been cut, and end in the beginning of what is looked for. */
const MAY_BE_CUT = 1000;

export const hideNothing: Hide = (value) => value;

/** Nothing can be told apart: all is withheld. */
export const hideAll: Hide = (value) => (value === null || value === undefined ? value : (REDACTED as typeof value));

/**
 * Hides what was withheld of a payload wherever it is repeated: in inputs, outputs, errors and questions, in whatever letter case, as JSON
 * or in an address. Names of fields too. Texts of fewer than four characters, and numbers of fewer than six digits, are left.
 */
export function hiding(withheld: readonly unknown[]): Hide {
  const texts = new Set<string>();
  const numbers = new Set<number>();
  for (const one of withheld) gather(one, texts, numbers);
  if (texts.size + numbers.size === 0) return hideNothing;
  if (texts.size + numbers.size > MAX_TEXTS) return hideAll;
  for (const number of numbers) texts.add(String(number));
  const spelled = [
    ...new Set([...texts].flatMap((text) => [text, JSON.stringify(text).slice(1, -1), encodeURIComponent(text.toWellFormed())])),
  ];
  const longestFirst = spelled.toSorted((one, other) => other.length - one.length);
  const pattern = new RegExp(longestFirst.map((text) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("|"), "gi");
  const hide = (value: unknown): unknown => {
    if (typeof value === "string") return withoutBeginnings(value.replace(pattern, REDACTED), spelled);
    if (typeof value === "number") return numbers.has(value) ? REDACTED : value;
    if (Array.isArray(value)) return value.map(hide);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key.replace(pattern, REDACTED), hide(one)]));
  };
  return hide as Hide;
}

/** Hides what a payload withholds by its schema. It is looked for when something is hidden first. */
export function hidingIn(schema: z.core.$ZodType, payload: unknown): Hide {
  if (!holdsMarks(schema)) return hideNothing;
  let hide: Hide | undefined;
  const look = () => {
    const withheld: unknown[] = [];
    redact(schema, payload, (one) => void withheld.push(one));
    return hiding(withheld);
  };
  return (value) => {
    hide ??= look();
    return hide(value);
  };
}

function gather(value: unknown, texts: Set<string>, numbers: Set<number>): void {
  if (typeof value === "string") {
    if (value.length >= LEAST_CHARACTERS) texts.add(value);
  } else if (typeof value === "number") {
    if (Math.abs(value) >= 100_000) numbers.add(value);
  } else if (typeof value === "object" && value !== null) {
    for (const one of Object.values(value)) gather(one, texts, numbers);
  }
}

/** A text that was cut within what is hidden ends in a part of it. */
function withoutBeginnings(text: string, spelled: readonly string[]): string {
  if (text.length < MAY_BE_CUT) return text;
  const folded = text.toLowerCase();
  const cut = spelled.map((one) => longestEnd(folded, one.toLowerCase())).reduce((most, length) => Math.max(most, length), 0);
  return cut < LEAST_CHARACTERS ? text : text.slice(0, -cut) + REDACTED;
}

function longestEnd(text: string, one: string): number {
  for (let length = Math.min(one.length - 1, text.length); length >= LEAST_CHARACTERS; length--) {
    if (text.endsWith(one.slice(0, length))) return length;
  }
  return 0;
}
