import * as z from "zod";
import type { Issue } from "./errors.ts";
import { nearest } from "./nearest.ts";
import { schemasAt } from "./redact.ts";
import { shortened } from "./text.ts";

type Schema = z.core.$ZodType;

/** Maximum number of reported issues, because a large body may have very many mistakes. */
export const MAX_ISSUES = 50;

/**
 * The fields of a value that its schema does not know, each with a suggestion. A schema that is not strict would silently drop unknown
 * fields. The list has at most 50 fields. A loose object, a record and `unknown` accept every field.
 */
export function unknownFields(schema: z.ZodType, value: unknown, prefix: readonly string[] = []): Issue[] {
  const issues: Issue[] = [];
  look([schema], value, prefix, issues);
  return issues;
}

/** Longer keys are shortened, because fifty paths through a key of a few megabytes would fill the memory. */
const MAX_KEY_CHARACTERS = 300;

export function dotted(path: readonly string[]): string {
  return path.map((key) => shortened(key, MAX_KEY_CHARACTERS)).join(".");
}

/** The issue of an unknown field, with a suggestion from the known fields. */
export function unknownField(path: readonly string[], known: Iterable<string>): Issue {
  const meant = nearest(path.at(-1) ?? "", known);
  return { path: dotted(path), message: `is not known here: ${meant ? `perhaps \`${meant}\` is meant` : "remove it"}` };
}

/** The description of a filter by a deployed name: `refuseUnknownNames` checks it. */
export const KNOWN_NAMES =
  "A name that is no longer deployed, such as a removed workflow, is accepted while rows with it exist. Other unknown names are refused.";

/** The issue of an unknown name, with a suggestion from the known names. */
export function unknownName(path: string, name: string, known: Iterable<string>): Issue {
  const meant = nearest(name, known);
  return { path, message: `is not known here${meant ? `: perhaps \`${meant}\` is meant` : ""}` };
}

/** The names of the fields that a schema has at a path. */
export function fieldsAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  const at = path.reduce<Schema[]>((schemas, key) => opened(schemas).flatMap((one) => schemasAt(one, key)), [schema]);
  return opened(at).flatMap((one) => Object.keys(shapeOf(one) ?? {}));
}

function look(schemas: readonly Schema[], value: unknown, path: readonly string[], issues: Issue[]): void {
  if (typeof value !== "object" || value === null || issues.length >= MAX_ISSUES) return;
  const fitting = opened(schemas, value);
  const shapes = fitting.map(shapeOf);
  const isOpen = fitting.length === 0 || shapes.includes(undefined);
  const known = isOpen ? undefined : new Set(shapes.flatMap((shape) => Object.keys(shape ?? {})));
  for (const key in value) {
    if (issues.length >= MAX_ISSUES) return;
    if (known && !known.has(key)) issues.push(unknownField([...path, key], known));
    else
      look(
        fitting.flatMap((one) => schemasAt(one, Array.isArray(value) ? Number(key) : key)),
        (value as Record<string, unknown>)[key],
        [...path, key],
        issues,
      );
  }
}

/** Schemas without their wrappers. For a union only the alternatives that the value fits, or all alternatives if the value fits none. */
function opened(schemas: readonly Schema[], value?: unknown): Schema[] {
  return schemas.flatMap((schema): Schema[] => {
    const { def } = (schema as z.core.$ZodTypes)._zod;
    switch (def.type) {
      case "optional":
      case "nullable":
      case "nonoptional":
      case "default":
      case "prefault":
      case "catch":
      case "readonly":
        return opened([def.innerType], value);
      case "pipe":
        return opened([def.in._zod.def.type === "transform" ? def.out : def.in], value);
      case "union": {
        const fitting = def.options.filter((one) => z.safeParse(one, value).success);
        return opened(fitting.length > 0 ? fitting : def.options, value);
      }
      case "intersection":
        return opened([def.left, def.right], value);
      case "lazy":
        return opened([def.getter()], value);
      default:
        return [schema];
    }
  });
}

/** The fields of an object schema. Undefined for a schema that accepts further fields, or that is no object. */
function shapeOf(schema: Schema): Readonly<Record<string, Schema>> | undefined {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (def.type !== "object") return undefined;
  const isOpen = def.catchall !== undefined && def.catchall._zod.def.type !== "never";
  return isOpen ? undefined : def.shape;
}
