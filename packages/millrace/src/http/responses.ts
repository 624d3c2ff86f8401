import type * as z from "zod";

/** Documents a successful JSON response. */
export function answers<Schema extends z.ZodType>(description: string, schema: Schema) {
  return { description, content: { "application/json": { schema } } };
}
