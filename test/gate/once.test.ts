import { expect, it } from "vitest";
import { notOnce } from "./once.ts";

const took = (...files: string[]) => files.map((file) => ({ file, ms: 1, tests: 1 }));

it("a test file that ran in two jobs, or in none, is reported with the number of its runs", () => {
  const files = ["test/a.test.ts", "test/b.test.ts", "test/c.test.ts"];
  expect(notOnce(took("test/b.test.ts", "test/a.test.ts", "test/b.test.ts"), files)).toEqual([
    "test/b.test.ts ran 2 times.",
    "test/c.test.ts ran 0 times.",
  ]);
  expect(notOnce(took(...files), files)).toEqual([]);
});
