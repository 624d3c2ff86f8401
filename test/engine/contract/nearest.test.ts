import { texts } from "millrace";
import { expect, it } from "vitest";

it("A name longer than every known name gets no suggestion, because the time to compare grows with its length", () => {
  const known = ["a".repeat(100)];
  expect(texts.nearest(`${"a".repeat(99)}b`, known)).toBe(known[0]);
  expect(texts.nearest(`${"a".repeat(100)}b`, known)).toBeUndefined();
});
