import { MillraceError } from "./errors.ts";
import { byteLength } from "./limits.ts";

/** Longest name of an object, in bytes: one with a longer name is not told it, and would take itself for another. */
const MAX_OBJECT_NAME_BYTES = 1024;

/** A name that an object can have. `path` is what of it its reader chose. Errors: `invalid_payload` for one that is empty or too long. */
export function checkedObjectName(name: string, path = "key"): string {
  const bytes = byteLength(name);
  if (bytes >= 1 && bytes <= MAX_OBJECT_NAME_BYTES && name.isWellFormed()) return name;
  const message = name.isWellFormed()
    ? `makes a name of ${bytes} bytes, and a Durable Object's has 1 to ${MAX_OBJECT_NAME_BYTES}: send a hash of it, or an id`
    : "holds half of a surrogate pair: send well-formed Unicode";
  throw new MillraceError("invalid_payload", `The ${path} ${message}. Nothing was stored.`, { issues: [{ path, message }] });
}

/** True for a name that a path cannot hold: whoever asks by it, percent-encoded or not, asks for what stands above. */
export function isPathStep(name: string | null): boolean {
  return name === "." || name === "..";
}

/**
 * The name of an object that is told from others of its class by several texts: different ones never share it, whatever they hold. Errors:
 * `invalid_payload` for texts that are too long together, and for "." and "..", by which no request could name it.
 */
export function objectNameOf(parts: readonly (string | null)[], path = "key"): string {
  if (!parts.some(isPathStep)) return checkedObjectName(JSON.stringify(parts), path);
  const message = 'must not be "." or "..": no path of a request could name it';
  throw new MillraceError("invalid_payload", `The ${path} ${message}. Nothing was stored.`, { issues: [{ path, message }] });
}

/** The texts of such a name, where it has so many; undefined for anything that `objectNameOf` did not write. */
export function partsOf(name: string | undefined, count: number): (string | null)[] | undefined {
  try {
    const parts: unknown = JSON.parse(name ?? "");
    const isName = Array.isArray(parts) && parts.length === count && parts.every((part) => part === null || typeof part === "string");
    return isName ? parts : undefined;
  } catch {
    return undefined;
  }
}
