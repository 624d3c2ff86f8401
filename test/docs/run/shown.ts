import { expect } from "vitest";

/** A document's view of a response: named fields only, lists by some of their items, `"…"` for any text. */
export function shown(value: unknown): unknown {
  if (value === "…") return expect.any(String);
  if (Array.isArray(value)) return value.length === 0 ? [] : expect.arrayContaining(value.map(shown));
  if (typeof value !== "object" || value === null) return value;
  return expect.objectContaining(Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shown(inner)])));
}
