import * as z from "zod";

/**
 * Marks a field of a message as sensitive: the API and console show `[redacted]` in messages, instances, effects, approvals and dead
 * letters. Workflow code gets the real value. The function does the same as `.meta({ sensitive: true })`.
 */
export function sensitive<Schema extends z.ZodType>(schema: Schema): Schema {
  return schema.meta({ ...schema.meta(), sensitive: true });
}

/** True for a schema that is marked as sensitive itself. Marks of its parts do not count. */
export function isSensitive(schema: z.core.$ZodType): boolean {
  return z.globalRegistry.get(schema as z.ZodType)?.sensitive === true;
}
