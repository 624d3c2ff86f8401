import * as z from "zod";
import type { Page } from "../store/d1/paging.ts";

/** An integer of a query or path, in decimal digits and nothing else: `0x10`, ` 5` and `05` are none. */
export function wholeNumber(min: number, max = Number.MAX_SAFE_INTEGER) {
  return z
    .string()
    .regex(/^(0|[1-9]\d{0,15})$/, "must be a whole number, in decimal digits")
    .transform(Number)
    .pipe(z.int().min(min).max(max));
}

/** How a list's length is asked for. */
function pageLimit(usual: number, most: number) {
  return wholeNumber(1, most).default(usual).meta({ type: "integer", minimum: 1, maximum: most, default: usual });
}

/** No list is in the order of times that are further ahead. */
const FARTHEST_MS = 3660 * 86_400_000;

export const NO_CURSOR = "is not a cursor: pass the `next_cursor` of the previous page, or omit it";
const CURSOR = { type: "string", description: "The `next_cursor` of the previous page." } as const;

/** The cursor of a list in the order of times: `timeOf` says which time one stands for; undefined for what is none. */
export function timeCursor(timeOf: (cursor: string) => number | undefined) {
  return z
    .string()
    .refine((cursor) => (timeOf(cursor) ?? Number.POSITIVE_INFINITY) < Date.now() + FARTHEST_MS, NO_CURSOR)
    .optional()
    .meta(CURSOR);
}

/** How every list in the order of times is asked for. */
export const pageQuery = {
  cursor: timeCursor((cursor) => (/^(0|[1-9]\d{0,15})\.[A-Za-z0-9_-]{1,128}$/.test(cursor) ? Number.parseInt(cursor, 10) : undefined)),
  limit: pageLimit(50, 200),
};

/** How a list in the order of names is asked for. Read, the cursor is the name that the page is behind. */
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
    limit: pageLimit(usual, most),
  };
}

/** Not the bare name: `null` and `undefined`, which a program sends by mistake, could be one. */
function nameCursor(name: string): string {
  return `~${Buffer.from(name).toString("base64url")}`;
}

/** How every list is answered. */
export function pageOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item),
    next_cursor: z.string().nullable().meta({ description: "Pass it as `cursor` for the next page; null on the last one." }),
  });
}

/** A page of what is in the order of names: of what was found, one more than asked for says that there is a next page. */
export function pageByName<Row, Item>(found: readonly Row[], limit: number, nameOf: (row: Row) => string, view: (row: Row) => Item) {
  const rows = found.slice(0, limit);
  const last = found.length > limit ? rows.at(-1) : undefined;
  return { items: rows.map(view), next_cursor: last === undefined ? null : nameCursor(nameOf(last)) };
}

/** A page of what is in the order of names, where the last name is known that it was looked for up to. */
export function pageBehind<Row, Item>(found: Page<Row>, view: (row: Row) => Item): { items: Item[]; next_cursor: string | null } {
  return { items: found.items.map(view), next_cursor: found.next === null ? null : nameCursor(found.next) };
}

export function page<Row, Item>(found: Page<Row>, view: (row: Row) => Item): { items: Item[]; next_cursor: string | null } {
  return { items: found.items.map(view), next_cursor: found.next };
}
