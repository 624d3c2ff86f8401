import { digest } from "./ids.ts";
import { beginning, shortened } from "./text.ts";

/** Maximum characters of an error's message that are read to find its cause, and that remain after normalization. */
const MAX_READ = 1000;
const MAX_SAID = 200;

const ID_CHARACTERS = 16;

/** Minimum length of a word of letters and digits that counts as an id in an error's message. */
const LEAST_ID = 8;

/**
 * An error's message without its variable parts: numbers, ids, dates, quoted values, e-mail addresses, and of a URL all but the host and
 * the words of the path. Failures for which the function returns the same text have the same cause. The function is pure, and its time is
 * bounded.
 */
export function normalized(message: string): string {
  const said = VARYING.reduce((text, [pattern, as]) => text.replaceAll(pattern, as as string), beginning(message, MAX_READ));
  return shortened(said.replaceAll(/\s+/g, " ").trim(), MAX_SAID);
}

const QUOTED = '"…"';

/** The patterns of variable parts. The order matters: an outer pattern is replaced before an inner one. */
const VARYING: readonly (readonly [RegExp, string | ((...found: string[]) => string)])[] = [
  [/\bhttps?:\/\/[^\s"'`<>)\]}]+/gi, ofUrl],
  [/"[^"]*"/g, QUOTED],
  [/`[^`]*`/g, QUOTED],
  [/[“„][^“”„]*[”“]|«[^»]*»/g, QUOTED],
  // An apostrophe within a word starts no quotation.
  [/(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])/gu, QUOTED],
  [/[^\s"<>(),;:@]+@[^\s"<>(),;:@]+/g, "…@…"],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "#"],
  [/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?/g, "#"],
  [/[A-Za-z0-9]+/g, (word: string) => (word.length >= LEAST_ID && /\d/.test(word) ? "#" : word)],
  [/\d+(?:[.,]\d+)*/g, "#"],
  // A repeated marker of a variable part becomes one marker, because the number of repetitions varies too.
  [/#(?:\s*[,/]\s*#)+/g, "#"],
  [/"…"(?:\s*,\s*"…")+/g, QUOTED],
];

/** A URL in an error message, reduced to scheme, host and the words of its path. */
function ofUrl(url: string): string {
  const [, scheme = "", authority = "", path = ""] = /^(https?:\/\/)([^/?#]*)([^?#]*)/i.exec(url) ?? [];
  const host = (authority.split("@").at(-1) ?? "").replace(/:\d*$/, "");
  const segments = path.split("/").map((segment) => (/^[a-z_.-]{0,24}$/i.test(segment) || /^v\d$/.test(segment) ? segment : "…"));
  return `${scheme}${host}${segments.join("/")}`;
}

/** The parts of a failure that determine its cause. */
export interface CauseParts {
  /** The queue of a message, or the workflow of an instance. */
  readonly place: string;
  readonly messageType?: string | null;
  readonly step?: string | null | undefined;
  readonly code: string;
  /** The original error message. */
  readonly message: string;
}

/** The stable id of a cause: 16 hex characters. */
export function causeId({ place, messageType, step, code, message }: CauseParts): string {
  return digest("cause", place, messageType ?? "", stepOf(step ?? ""), code, normalized(message)).slice(0, ID_CHARACTERS);
}

/** A step's name without its item's key: `pay [a]` and `pay [b]` have the same cause. */
export function stepOf(step: string): string {
  return step.replace(/ \[.*\]$/s, "");
}
