import * as z from "zod";

/**
 * Marks a field of a message as sensitive: people read `[redacted]` in its place wherever they look at messages, instances, effects, questions
 * and dead letters. The code reads it as it is. The same as `.meta({ sensitive: true })`.
 */
export function sensitive<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ ...schema.meta(), sensitive: true });
}

/** True for a schema that is marked itself, not in what it holds. */
export function isSensitive(schema: z.core.$ZodType): boolean {
  return z.globalRegistry.get(schema as z.ZodType)?.sensitive === true;
}
