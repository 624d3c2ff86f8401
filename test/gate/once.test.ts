import { expect, it } from "vitest";
import { notOnce } from "./once.ts";

const took = (...files: string[]) => files.map((file) => ({ file, ms: 1, tests: 1 }));

it("a file that ran in two of the gate's jobs, or in none, is named with how often it ran", () => {
  const files = ["test/a.test.ts", "test/b.test.ts", "test/c.test.ts"];
  expect(notOnce(took("test/b.test.ts", "test/a.test.ts", "test/b.test.ts"), files)).toEqual([
    "test/b.test.ts ran 2 times.",
    "test/c.test.ts ran 0 times.",
  ]);
  expect(notOnce(took(...files), files)).toEqual([]);
});
