import { MillraceError } from "./errors.ts";
import { byteLength } from "./limits.ts";

/** Maximum bytes of an object's name. An object with a longer name does not get its name from the platform. */
const MAX_OBJECT_NAME_BYTES = 1024;

/**
 * Validates an object's name. `path` is the field of the request that the error names. Errors: `invalid_payload` for a name that is
 * empty or too long.
 */
export function checkedObjectName(name: string, path = "key"): string {
  const bytes = byteLength(name);
  if (bytes >= 1 && bytes <= MAX_OBJECT_NAME_BYTES && name.isWellFormed()) return name;
  const message = name.isWellFormed()
    ? `gives a Durable Object name of ${bytes} bytes, and 1 to ${MAX_OBJECT_NAME_BYTES} are allowed: send a hash of it, or an id`
    : "holds half of a surrogate pair: send well-formed Unicode";
  throw new MillraceError("invalid_payload", `The ${path} ${message}. Nothing was stored.`, { issues: [{ path, message }] });
}

/**
 * True for a name that is a relative path segment. A request for an object with such a name addresses the parent path, even if the name is
 * percent-encoded.
 */
export function isPathStep(name: string | null): boolean {
  return name === "." || name === "..";
}

/**
 * An object's name from several strings. Different strings always give different names. Errors: `invalid_payload` for strings that are too
 * long together, and for "." and "..", which no request path can contain.
 */
export function objectNameOf(parts: readonly (string | null)[], path = "key"): string {
  if (!parts.some(isPathStep)) return checkedObjectName(JSON.stringify(parts), path);
  const message = 'must not be "." or "..": a request path cannot contain it';
  throw new MillraceError("invalid_payload", `The ${path} ${message}. Nothing was stored.`, { issues: [{ path, message }] });
}

/** The strings that `objectNameOf` combined into a name, if `count` strings were combined; undefined for any other name. */
export function partsOf(name: string | undefined, count: number): (string | null)[] | undefined {
  try {
    const parts: unknown = JSON.parse(name ?? "");
    const isName = Array.isArray(parts) && parts.length === count && parts.every((part) => part === null || typeof part === "string");
    return isName ? parts : undefined;
  } catch {
    return undefined;
  }
}
