/** What JSON would change or leave out in silence, and where it stands. */
export interface Strange {
  /** Such as `a Map`, `a function`, `an object of the class Money`. */
  readonly what: string;
  /** Dotted, such as `order.items.0`; "" for the value itself. */
  readonly at: string;
}

/**
 * The first thing in a value that is neither a plain object, an array nor a primitive: JSON makes {} of a Map, text of a Date, nothing of a
 * function. Undefined where there is none. The value has no cycle.
 */
export function strangeIn(value: unknown): Strange | undefined {
  if (typeof value === "function" || typeof value === "symbol") return { what: `a ${typeof value}`, at: "" };
  if (typeof value !== "object" || value === null) return undefined;
  if (!Array.isArray(value) && !isPlain(value)) return { what: nameOf(value), at: "" };
  for (const key of Object.keys(value)) {
    const inner: unknown = (value as Record<string, unknown>)[key];
    if (typeof inner === "string" || typeof inner === "number") continue;
    const found = strangeIn(inner);
    if (found) return { what: found.what, at: found.at ? `${key}.${found.at}` : key };
  }
  return undefined;
}

/** Also for one that was made in another realm, or without a prototype. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function nameOf(value: object): string {
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name;
  if (typeof name !== "string" || name === "") return "an object of a class";
  return KNOWN.has(name) ? `a ${name}` : `an object of the class ${name.slice(0, 100)}`;
}

const KNOWN: ReadonlySet<string> = new Set(["Date", "Map", "Set", "Promise", "Response", "Headers", "URL"]);
