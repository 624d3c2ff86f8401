import { digest } from "./ids.ts";
import { beginning, shortened } from "./text.ts";

/** Characters of an error's message that are read, and that are kept of it once what varies is out. */
const MAX_READ = 1000;
const MAX_SAID = 200;

const ID_CHARACTERS = 16;

/** What is taken for one word of an id or a number: from so many characters on, letters and digits together are an id. */
const LEAST_ID = 8;

/**
 * An error's message without what varies from case to case: numbers, ids, dates, quoted values, addresses of people, and of a URL all but
 * its host and the words of its path. Two failures whose messages become the same have one cause. Pure and bounded.
 */
export function normalized(message: string): string {
  const said = VARYING.reduce((text, [pattern, as]) => text.replaceAll(pattern, as as string), beginning(message, MAX_READ));
  return shortened(said.replaceAll(/\s+/g, " ").trim(), MAX_SAID);
}

const QUOTED = '"…"';

/** In this order: what stands within another is gone by then. */
const VARYING: readonly (readonly [RegExp, string | ((...found: string[]) => string)])[] = [
  [/\bhttps?:\/\/[^\s"'`<>)\]}]+/gi, ofUrl],
  [/"[^"]*"/g, QUOTED],
  [/`[^`]*`/g, QUOTED],
  [/[“„][^“”„]*[”“]|«[^»]*»/g, QUOTED],
  // An apostrophe within a word opens nothing.
  [/(?<![\p{L}\p{N}])'[^']*'(?![\p{L}\p{N}])/gu, QUOTED],
  [/[^\s"<>(),;:@]+@[^\s"<>(),;:@]+/g, "…@…"],
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "#"],
  [/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?/g, "#"],
  [/[A-Za-z0-9]+/g, (word: string) => (word.length >= LEAST_ID && /\d/.test(word) ? "#" : word)],
  [/\d+(?:[.,]\d+)*/g, "#"],
  // How many there were varies too.
  [/#(?:\s*[,/]\s*#)+/g, "#"],
  [/"…"(?:\s*,\s*"…")+/g, QUOTED],
];

/** Scheme, host and the words of the path: no port, no query, and no segment that may name a case. */
function ofUrl(url: string): string {
  const [, scheme = "", authority = "", path = ""] = /^(https?:\/\/)([^/?#]*)([^?#]*)/i.exec(url) ?? [];
  const host = (authority.split("@").at(-1) ?? "").replace(/:\d*$/, "");
  const segments = path.split("/").map((segment) => (/^[a-z_.-]{0,24}$/i.test(segment) || /^v\d$/.test(segment) ? segment : "…"));
  return `${scheme}${host}${segments.join("/")}`;
}

/** What a failure has in common with others of its cause. */
export interface CauseParts {
  /** The queue of a message, or the workflow of an instance. */
  readonly place: string;
  readonly messageType?: string | null;
  readonly step?: string | null | undefined;
  readonly code: string;
  /** As the error said it. */
  readonly message: string;
}

/** The stable id of a cause: 16 hex characters. */
export function causeId({ place, messageType, step, code, message }: CauseParts): string {
  return digest("cause", place, messageType ?? "", stepOf(step ?? ""), code, normalized(message)).slice(0, ID_CHARACTERS);
}

/** A step without the item that it was for: `pay [a]` and `pay [b]` fail of one cause. */
export function stepOf(step: string): string {
  return step.replace(/ \[.*\]$/s, "");
}
