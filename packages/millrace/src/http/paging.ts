import * as z from "zod";
import { unknownName } from "../contract/known-fields.ts";
import type { Page } from "../store/d1/paging.ts";
import type { Asked } from "./operation.ts";
import { invalidRequest } from "./problem.ts";

/** An integer in a query or path, in plain decimal digits. Refuses `0x10`, ` 5` and `05`. */
export function wholeNumber(min: number, max = Number.MAX_SAFE_INTEGER) {
  return z
    .string()
    .regex(/^(0|[1-9]\d{0,15})$/, "must be a whole number, in decimal digits")
    .transform(Number)
    .pipe(z.int().min(min).max(max))
    .meta({ type: "integer", minimum: min, ...(max < Number.MAX_SAFE_INTEGER && { maximum: max }) });
}

/** The latest time that a valid cursor may contain, because no list contains later times. */
const FARTHEST_MS = 3660 * 86_400_000;

export const NO_CURSOR = "is not a cursor: pass the `next_cursor` of the previous page, or omit it";
const CURSOR = { type: "string", description: "The `next_cursor` of the previous page." } as const;

/** `timeOf` returns the time of a cursor, or undefined for an invalid cursor. */
export function timeCursor(timeOf: (cursor: string) => number | undefined) {
  return z
    .optional(z.string().refine((cursor) => (timeOf(cursor) ?? Number.POSITIVE_INFINITY) < Date.now() + FARTHEST_MS, NO_CURSOR))
    .meta(CURSOR);
}

/** The query parameters of every list in the order of time. */
export const pageQuery = {
  cursor: timeCursor((cursor) => (/^(0|-?[1-9]\d{0,15})\.[A-Za-z0-9_-]{1,128}$/.test(cursor) ? Number.parseInt(cursor, 10) : undefined)),
  limit: wholeNumber(1, 200).default(50),
};

/** The query parameters of a list in the order of names. The parsed cursor is the last name of the previous page. */
export function nameQuery(usual: number, most: number) {
  return {
    cursor: z
      .string()
      .transform((cursor, { addIssue }) => {
        const name = Buffer.from(cursor.slice(1), "base64url").toString();
        if (name !== "" && nameCursor(name) === cursor) return name;
        addIssue(NO_CURSOR);
        return z.NEVER;
      })
      .optional()
      .meta(CURSOR),
    limit: wholeNumber(1, most).default(usual),
  };
}

/** Encodes a name as a cursor, because a plain name could equal `null` or `undefined`, which programs send by mistake. */
function nameCursor(name: string): string {
  return `~${Buffer.from(name).toString("base64url")}`;
}

export function pageOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item),
    next_cursor: z.string().nullable().describe("Pass it as `cursor` for the next page; null on the last one."),
  });
}

type View<Row, Item> = (row: Row) => Item;
const same: View<never, never> = (row) => row;

/** A page of a list in the order of names. `found` has one row more than `limit` if there is a next page. */
export function pageByName<Row, Item = Row>(
  found: readonly Row[],
  limit: number,
  nameOf: (row: Row) => string,
  view: View<Row, Item> = same as never,
) {
  const rows = found.slice(0, limit);
  const last = found.length > limit ? rows.at(-1) : undefined;
  return { items: rows.map(view), next_cursor: last === undefined ? null : nameCursor(nameOf(last)) };
}

/** A page of a list in the order of names, for a query that returns the last name that it scanned. */
export function pageBehind<Row>({ items, next }: Page<Row>) {
  return { items, next_cursor: next === null ? null : nameCursor(next) };
}

export function page<Row, Item = Row>({ items, next }: Page<Row>, view: View<Row, Item> = same as never) {
  return { items: items.map(view), next_cursor: next };
}

type NamedQuery = Partial<Record<"workflow" | "queue" | "reason" | "cursor", string>>;

/**
 * Returns a page, but refuses an empty first page for an unknown name: a caller who misspells the name would conclude that no items exist.
 * Rows of removed names remain. Errors: `invalid_payload`, with the name that was probably meant.
 */
export function refuseUnknownNames<Found extends Page<unknown>>(
  { catalog, context, query }: Pick<Asked, "catalog" | "context"> & { query: NamedQuery },
  found: Found,
): Found {
  if (found.items.length > 0 || found.next !== null || query.cursor !== undefined) return found;
  const known = {
    workflow: catalog.workflows.map(({ name }) => name),
    queue: catalog.consumers.map(({ queue }) => queue.name),
    reason: ["exhausted", ...Object.keys(context.var.problems)],
  };
  const issues = Object.entries(known).flatMap(([filter, names]) => {
    const name = query[filter as keyof typeof known];
    return name === undefined || names.includes(name) ? [] : [unknownName(filter, name, names)];
  });
  if (issues.length > 0) throw invalidRequest(issues);
  return found;
}
