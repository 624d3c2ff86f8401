import { nearest } from "millrace";
import { expect, it } from "vitest";

it("A name longer than any of ours is told of none that is near: measuring takes time with the length", () => {
  const known = ["a".repeat(100)];
  expect(nearest(`${"a".repeat(99)}b`, known)).toBe(known[0]);
  expect(nearest(`${"a".repeat(100)}b`, known)).toBeUndefined();
});
