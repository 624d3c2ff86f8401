import type { Asker } from "../../access/may-ask.ts";
import type { Statement } from "../../contract/sql.ts";
import { beginning } from "../../contract/text.ts";
import type { Row } from "../../store/d1/retry.ts";

/** Names of the deployment's code: of its workflows, and of the types of events that it takes. Keys are hashed with them. */
export interface KnownNames {
  readonly workflows: readonly string[];
  readonly events: readonly string[];
}

/** What somebody looks for, and who. */
export interface Sought {
  /** As it was typed, without blanks around it; what is a traceparent is its trace id. */
  readonly text: string;
  readonly by: Asker;
  readonly known: KnownNames;
}

/** A thing that was found, and the way to it. */
export interface Found {
  /** What it is called by: unique with its kind. */
  id: string;
  /** A line for people: text, never HTML. */
  title: string;
  status: string | null;
  /** When it came into being, in milliseconds since the epoch. */
  at: number | null;
  /** The route that shows it, as a path with its query. */
  url: string;
  /** Which of its names is as the text says, such as `id` or `subject`. */
  by: string;
  /** `prefix` where that name only begins so. */
  match: "exact" | "prefix";
}

/** Looks for things of one kind: one statement that reads from an index, for the tenant alone. */
export interface Finder {
  /** In the words of the routes: `instance`, `dead_letter`. */
  readonly kind: string;
  /** Undefined where no name of this kind looks so. Answers no more rows than `MOST_OF_A_KIND` and one. */
  readonly look: (sought: Sought) => Statement | undefined;
  /** Undefined for a row that is none of it after all. */
  readonly read: (row: Row, sought: Sought) => Found | undefined;
}

/** Things of a kind that one answer has, at most. */
export const MOST_OF_A_KIND = 5;
/** Rows that a finder asks for: one more says that there are more. */
export const ASKED = MOST_OF_A_KIND + 1;

/** The shortest beginning of a name that is looked for. */
const SHORTEST = 3;
/** The same of a hash: so few begin alike that other tenants' need not be kept apart by an index. */
const SHORTEST_HASH = 6;

/** The texts that begin with this one: from the first to behind the last. Just this one where it is too short to be a beginning. */
export function beginningWith(text: string): { from: string; to: string } {
  return { from: text, to: text.length < SHORTEST ? `${text}\0` : `${text}\u{10FFFF}` };
}

/** The same of ids that are hashes, or contain one; undefined for what none begins with. */
export function hashBeginningWith(text: string): { from: string; to: string } | undefined {
  const hash = text.toLowerCase();
  return hash.length >= SHORTEST_HASH && /^[0-9a-f][0-9a-f-]{0,63}$/.test(hash) ? { from: hash, to: `${hash}~` } : undefined;
}

/** How a name is as the text says. */
export function matchOf(name: unknown, { text }: Sought): Found["match"] {
  return name === text || name === text.toLowerCase() ? "exact" : "prefix";
}

/** A line of some words, of a length that fits one. */
export function titleOf(...words: unknown[]): string {
  return beginning(words.filter((word) => typeof word === "string" && word !== "").join(" · "), 200);
}
