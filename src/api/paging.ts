import { z } from "@hono/zod-openapi";
import type { Page } from "../engine/index.ts";

/** How every list is asked for. */
export const pageQuery = {
  cursor: z
    .string()
    .regex(/^\d{1,16}\.[A-Za-z0-9_-]{1,64}$/, "is not a cursor: pass the `next_cursor` of the page before, or nothing")
    .optional()
    .openapi({ description: "The `next_cursor` of the page before." }),
  limit: z.coerce.number().int().min(1).max(200).default(50).openapi({ type: "integer", minimum: 1, maximum: 200, default: 50 }),
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
