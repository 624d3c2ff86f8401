import * as z from "zod";

/** A time of the API in ISO 8601. A column has milliseconds since 1970. */
export const timestamp = z.iso.datetime().meta({ example: "2026-10-01T09:30:00.000Z" });

export function iso(at: number): string {
  return new Date(at).toISOString();
}

export function isoOrNull(at: number | null): string | null {
  return at === null ? null : iso(at);
}

interface Field {
  readonly type: string;
  readonly format?: string;
  readonly innerType?: z.ZodType;
  readonly element?: z.ZodType;
}

/**
 * Makes a row of the API from a row of SQL, by the types of the schema's fields: a time from milliseconds, true from 1, lists, objects and
 * unknown values from JSON. The columns have the names of the fields. Columns without a field are left out, and fields without a column.
 */
export function rowOf<Of extends z.ZodObject>(of: Of, row: object): z.output<Of> {
  return fieldsOf(of, row, false) as z.output<Of>;
}

function fieldsOf({ shape }: z.ZodObject, row: object, isInJson: boolean): object {
  const read = Object.entries(row).flatMap(([name, value]) => {
    const field = shape[name] as z.ZodType | undefined;
    return field === undefined ? [] : [[name, fieldOf(field, value, isInJson)]];
  });
  return Object.fromEntries(read);
}

function fieldOf(schema: z.ZodType, value: unknown, isInJson: boolean): unknown {
  if (value === null) return null;
  const { type, format, innerType, element } = schema.def as Field;
  if (innerType) return fieldOf(innerType, value, isInJson);
  if (type === "boolean") return Boolean(value);
  if (format === "datetime" && typeof value === "number") return iso(value);
  if (!JSON_TYPES.has(type)) return value;
  const parsed: unknown = typeof value === "string" && !isInJson ? JSON.parse(value) : value;
  if (schema instanceof z.ZodObject && parsed !== null) return fieldsOf(schema, parsed as object, true);
  return element && Array.isArray(parsed) ? parsed.map((one) => fieldOf(element, one, true)) : parsed;
}

const JSON_TYPES: ReadonlySet<string> = new Set(["object", "array", "record", "unknown"]);
