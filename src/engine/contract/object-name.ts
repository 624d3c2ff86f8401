/** The name of an object that is told from others of its class by several texts: different ones never share it, whatever they hold. */
export function objectNameOf(parts: readonly (string | null)[]): string {
  return JSON.stringify(parts);
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
