import { z } from "@hono/zod-openapi";
import type { Page } from "../engine/index.ts";

/** An integer of a query or path, in decimal digits and nothing else: `0x10` and ` 5` are none. */
export function wholeNumber(min: number, max = Number.MAX_SAFE_INTEGER) {
  return z
    .string()
    .regex(/^\d{1,16}$/, "must be a whole number, in decimal digits")
    .transform(Number)
    .pipe(z.int().min(min).max(max));
}

/** How a list's length is asked for. */
export function pageLimit(usual: number, most: number) {
  return wholeNumber(1, most).default(usual).openapi({ type: "integer", minimum: 1, maximum: most, default: usual });
}

/** No list is in the order of times that are further ahead. */
const FARTHEST_MS = 3660 * 86_400_000;

const NO_CURSOR = "is not a cursor: pass the `next_cursor` of the page before, or nothing";

/** How every list is asked for. */
export const pageQuery = {
  cursor: z
    .string()
    .regex(/^(0|[1-9]\d{0,15})\.[A-Za-z0-9_-]{1,64}$/, { error: NO_CURSOR, abort: true })
    .refine((cursor) => Number.parseInt(cursor, 10) < Date.now() + FARTHEST_MS, NO_CURSOR)
    .optional()
    .openapi({ description: "The `next_cursor` of the page before." }),
  limit: pageLimit(50, 200),
};

/** How every list is answered. */
export function pageOf<Item extends z.ZodType>(item: Item) {
  return z.object({
    items: z.array(item),
    next_cursor: z.string().nullable().openapi({ description: "Pass it as `cursor` for the next page; null on the last one." }),
  });
}

export function page<Row, Item>(found: Page<Row>, view: (row: Row) => Item): { items: Item[]; next_cursor: string | null } {
  return { items: found.items.map(view), next_cursor: found.next };
}
