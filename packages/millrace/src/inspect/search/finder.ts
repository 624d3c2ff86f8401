import type { Asker } from "../../access/may-ask.ts";
import type { Statement } from "../../contract/sql.ts";
import { beginning } from "../../contract/text.ts";
import type { Row } from "../../store/d1/retry.ts";

/** Names of the deployment's workflows and accepted events. Keys are hashed with them. */
export interface KnownNames {
  readonly workflows: readonly string[];
  readonly events: readonly string[];
}

export interface Sought {
  /** The trimmed text. A traceparent is replaced by its trace id. */
  readonly text: string;
  readonly by: Asker;
  readonly known: KnownNames;
}

export interface Found {
  /** Unique with its kind. */
  id: string;
  /** Plain text, never HTML. */
  title: string;
  status: string | null;
  at: number | null;
  /** Its route, as a path with a query. */
  url: string;
  /** The name that matches, such as `id` or `subject`. */
  by: string;
  /** `prefix` if the name only begins with the text. */
  match: "exact" | "prefix";
}

/** Finds objects of one kind: one statement that reads an index, for the tenant alone. */
export interface Finder {
  /** As in the routes: `instance`, `dead_letter`. */
  readonly kind: string;
  /** Undefined if no name of this kind has this form. Returns at most `MOST_OF_A_KIND` + 1 rows. */
  readonly look: (sought: Sought) => Statement | undefined;
  /** Undefined for a row that does not match. */
  readonly read: (row: Row, sought: Sought) => Found | undefined;
}

/** Most objects of a kind in one answer. */
export const MOST_OF_A_KIND = 5;
export const ASKED = MOST_OF_A_KIND + 1;

/** Shortest prefix of a name. */
const SHORTEST = 3;
/** Shortest prefix of a hash. Few hashes share it, so no index by tenant is needed. */
const SHORTEST_HASH = 6;

/** The range of texts with this prefix; only the text itself if it is shorter than the minimum. */
export function beginningWith(text: string): { from: string; to: string } {
  return { from: text, to: text.length < SHORTEST ? `${text}\0` : `${text}\u{10FFFF}` };
}

/** The range of ids that begin with a hash; undefined if the text is not the beginning of one. */
export function hashBeginningWith(text: string): { from: string; to: string } | undefined {
  const hash = text.toLowerCase();
  return hash.length >= SHORTEST_HASH && /^[0-9a-f][0-9a-f-]{0,63}$/.test(hash) ? { from: hash, to: `${hash}~` } : undefined;
}

export function matchOf(name: unknown, { text }: Sought): Found["match"] {
  return name === text || name === text.toLowerCase() ? "exact" : "prefix";
}

export function titleOf(...words: unknown[]): string {
  return beginning(words.filter((word) => typeof word === "string" && word !== "").join(" · "), 200);
}
