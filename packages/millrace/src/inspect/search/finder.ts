import * as z from "zod";
import type { Asker } from "../../access/may-ask.ts";
import { component, timestamp } from "../../contract/row.ts";
import type { Statement } from "../../contract/sql.ts";
import { beginning } from "../../contract/text.ts";
import type { Row } from "../../store/d1/retry.ts";

/** The deployment's workflows and accepted events. The search hashes a key with each of these names. */
export interface KnownNames {
  readonly workflows: readonly string[];
  readonly events: readonly string[];
}

export interface Sought {
  /** The trimmed search text. A traceparent is replaced by its trace id. */
  readonly text: string;
  readonly by: Asker;
  readonly known: KnownNames;
}

export const Finding = component("Finding", {
  kind: z.string().describe("The kind, such as `instance`, `correlation`, `dead_letter`, or a kind of the app."),
  id: z.string(),
  title: z.string().describe("A readable title. Plain text: never render it as HTML."),
  status: z.string().nullable(),
  at: timestamp.nullable().describe("When it was created."),
  url: z.string().describe("The path of the API that returns the item."),
  by: z.string().describe("The matching name, such as `id`, `idempotency_key` or `subject`."),
  match: z.enum(["exact", "prefix"]).describe("`prefix` if the name only starts with the text."),
});
export type Finding = z.infer<typeof Finding>;

/** The time is in milliseconds. */
export type Found = Omit<Finding, "kind" | "at"> & { at: number | null };

/** Finds the tenant's objects of one kind, by one statement that reads an index. */
export interface Finder {
  /** The kind of object, as in the routes: `instance`, `dead_letter`. */
  readonly kind: string;
  /** Returns undefined if the search text cannot be a name of this kind. The statement returns at most `MOST_OF_A_KIND` + 1 rows. */
  readonly look: (sought: Sought) => Statement | undefined;
  /** Converts a row to a found object; undefined for a row that does not match the search. */
  readonly read: (row: Row, sought: Sought) => Found | undefined;
}

/** Maximum number of results of one kind. */
export const MOST_OF_A_KIND = 5;
export const ASKED = MOST_OF_A_KIND + 1;

/** Minimum length of a name's prefix in a search, in characters. */
const SHORTEST = 3;
/** Minimum length of a hash's prefix in a search. Few hashes have a common prefix of this length, so no index by tenant is needed. */
const SHORTEST_HASH = 6;

/** The range of strings that begin with `text`; only `text` itself below the minimum length. */
export function beginningWith(text: string): { from: string; to: string } {
  return { from: text, to: text.length < SHORTEST ? `${text}\0` : `${text}\u{10FFFF}` };
}

/** The range of ids that begin with `text`; undefined if it cannot be the beginning of a hash. */
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
