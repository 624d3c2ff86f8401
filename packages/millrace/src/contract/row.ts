import * as z from "zod";
import { type Hide, shownCode } from "./hide.ts";

/** A time of the API in ISO 8601. A column has milliseconds since 1970. */
export const timestamp = z.iso.datetime().meta({ example: "2026-10-01T09:30:00.000Z" });

/** The schema of an object that the OpenAPI document has under its name. */
export function component<Shape extends z.ZodRawShape>(id: string, shape: Shape) {
  return z.object(shape).meta({ id });
}

export function listOf<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.array(z.object(shape));
}

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
 * Converts a row of SQL to a row of the API, by the types of the schema's fields: a time from milliseconds, true from 1, lists, objects and
 * unknown values from JSON. The columns have the names of the fields. Columns without a field and fields without a column are left out.
 */
export function rowOf<Of extends z.ZodObject>(of: Of, row: object): z.output<Of> {
  return fieldsOf(of, row, false) as z.output<Of>;
}

function fieldsOf({ shape }: z.ZodObject, row: object, isInJson: boolean): object {
  const columns = row as Readonly<Record<string, unknown>>;
  const read = Object.entries(shape).flatMap(([name, field]) =>
    columns[name] === undefined ? [] : [[name, fieldOf(field as z.ZodType, columns[name], isInJson)]],
  );
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

/**
 * The mark of a field with strings from messages. The sensitive parts of these strings are hidden. The OpenAPI document shows this mark.
 */
export const redacted = { "x-redacted": true } as const;
/** The mark of a field with the code of a failure, which may contain text from messages. The OpenAPI document shows this mark. */
export const redactedCode = { "x-redacted": "code" } as const;

/** Hides sensitive strings in the marked fields of a row, also in its objects and lists. */
export function hiddenIn<Given extends object>({ shape }: z.ZodObject, row: Given, hide: Hide): Given {
  const fields = Object.entries(row).map(([name, value]) => [
    name,
    name in shape ? hiddenBy(shape[name] as z.ZodType, value, hide) : value,
  ]);
  return Object.fromEntries(fields) as Given;
}

function hiddenBy(schema: z.ZodType, value: unknown, hide: Hide): unknown {
  const mark = schema.meta()?.["x-redacted"];
  if (mark !== undefined) return mark === "code" ? shownCode(hide, String(value)) : hide(value);
  const { innerType, element } = schema.def as Field;
  if (innerType) return hiddenBy(innerType, value, hide);
  if (element && Array.isArray(value)) return value.map((one) => hiddenBy(element, one, hide));
  return schema instanceof z.ZodObject && typeof value === "object" && value !== null ? hiddenIn(schema, value, hide) : value;
}
