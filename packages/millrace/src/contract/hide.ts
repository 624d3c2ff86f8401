import type * as z from "zod";
import { isEngineCode } from "./errors.ts";
import { holdsMarks, REDACTED, redact } from "./redact.ts";
import { withoutSlash } from "./step-names.ts";

/** Replaces redacted strings in any value. */
export type Hide = <T>(value: T) => T;

/** Returns the redaction of an item's texts by the item's id. */
export type HideOf = (id: string) => Hide;

/** Minimum characters of a string to redact. A shorter string is no secret by itself, and would match in too many strings. */
const LEAST_CHARACTERS = 4;
/** A redacted string above this length is searched for in pieces, so that parts of the string are hidden too. */
const PIECE_CHARACTERS = 200;
/** If the redacted strings exceed these limits, no search is made, and each value is hidden as a whole. */
const MAX_TEXTS = 1000;
const MAX_CHARACTERS = 100_000;
/** A string of this length may have been shortened, and may end with the beginning of a redacted string. */
const MAY_BE_CUT = 1000;

export const hideNothing: Hide = (value) => value;

/** The code of a failure for display. An error code of the app that contains a redacted string becomes `step_failed`. */
export function shownCode<Code extends string>(hide: Hide, code: Code): Code | "step_failed" {
  return isEngineCode(code) || hide(code) === code ? code : "step_failed";
}

/** Hides a whole value that cannot be searched for redacted strings. */
export const hideAll: Hide = (value) => (value === null || value === undefined ? value : (REDACTED as typeof value));

/**
 * Replaces the redacted strings of a payload in inputs, outputs, errors and approvals, in any letter case and in the spelling of common
 * formats. Field names are searched too. Strings under four characters and numbers under six digits are not replaced.
 */
export function hiding(withheld: readonly unknown[]): Hide {
  const texts = new Set<string>();
  const numbers = new Set<number>();
  for (const one of withheld) gather(one, texts, numbers);
  if (texts.size + numbers.size === 0) return hideNothing;
  if (texts.size + numbers.size > MAX_TEXTS) return hideAll;
  for (const number of numbers) texts.add(String(number));
  const pieces = [...texts].flatMap(piecesOf);
  if (pieces.reduce((sum, { length }) => sum + length, 0) > MAX_CHARACTERS) return hideAll;
  const spelled = [...new Set(pieces.flatMap(spellingsOf).map(folded))];
  const hide = (value: unknown): unknown => {
    if (typeof value === "string") return without(value, spelled);
    if (typeof value === "number") return numbers.has(value) ? REDACTED : value;
    if (Array.isArray(value)) return value.map(hide);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [without(key, spelled), hide(one)]));
  };
  return hide as Hide;
}

/** Splits a redacted string into pieces that are long enough to search for. No split is inside a surrogate pair. */
function piecesOf(text: string): string[] {
  if (text.length < 2 * PIECE_CHARACTERS) return [text];
  const end = PIECE_CHARACTERS - (/[\uD800-\uDBFF]/.test(text.charAt(PIECE_CHARACTERS - 1)) ? 1 : 0);
  return [text.slice(0, end), ...piecesOf(text.slice(end))];
}

/** The spellings in which a redacted string may occur: Unicode forms, JSON with and without escapes, URLs and forms, HTML, step keys. */
function spellingsOf(text: string): string[] {
  return [...new Set([text, text.normalize("NFC"), text.normalize("NFD")])].flatMap((one) => {
    const json = JSON.stringify(one).slice(1, -1);
    const ascii = json.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
    const form = new URLSearchParams({ "": one }).toString().slice(1);
    return [
      one,
      json,
      ascii,
      encodeURIComponent(one.toWellFormed()),
      form,
      form.replaceAll("+", "%20"),
      ...HTML.map((as) => asHtml(one, as)),
      withoutSlash(one),
    ];
  });
}

/** HTML escapes in redacted strings. The single quote has three common spellings. */
const HTML = ["&#39;", "&#x27;", "&apos;"].map(
  (quote): Readonly<Record<string, string>> => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": quote }),
);
const asHtml = (text: string, as: Readonly<Record<string, string>>) => text.replace(/[&<>"']/g, (one) => as[one] ?? one);

/** Hides the marked fields of a payload. The marked fields are determined at the first call. */
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

/** A string in lower case, with the same length. */
function folded(text: string): string {
  return text.replaceAll("\u0130", "i").toLowerCase().replaceAll("\u03c2", "\u03c3");
}

/** Replaces redacted strings in a string by a marker. Overlapping matches become one marker. */
function without(text: string, spelled: readonly string[]): string {
  const inCase = folded(text);
  const places = spelled.flatMap((one) => placesOf(one, inCase));
  if (text.length >= MAY_BE_CUT) places.push(...spelled.flatMap((one) => cutPlace(one, inCase)));
  if (places.length === 0) return text;
  let [left, behind] = ["", 0];
  for (const [start, end] of places.toSorted(([one], [other]) => one - other)) {
    if (start > behind || behind === 0) left += text.slice(behind, start) + REDACTED;
    behind = Math.max(behind, end);
  }
  return left + text.slice(behind);
}

type Place = [start: number, end: number];

function placesOf(one: string, text: string): Place[] {
  const places: Place[] = [];
  for (let start = text.indexOf(one); start >= 0; start = text.indexOf(one, start + one.length)) places.push([start, start + one.length]);
  return places;
}

/** A shortened string may end with the beginning of a redacted string. */
function cutPlace(one: string, text: string): Place[] {
  const least = one.slice(0, LEAST_CHARACTERS);
  for (let start = text.indexOf(least, Math.max(0, text.length - one.length + 1)); start >= 0; start = text.indexOf(least, start + 1)) {
    if (one.startsWith(text.slice(start))) return [[start, text.length]];
  }
  return [];
}
