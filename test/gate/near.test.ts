import { expect, it } from "vitest";
import { rank } from "./near.ts";

const IMPORTS: Record<string, string[]> = {
  "src/crm/link.ts": [],
  "src/crm/sync.ts": ["src/crm/link.ts"],
  "src/worker.ts": ["src/crm/sync.ts"],
  "test/crm/link.test.ts": ["src/crm/link.ts"],
  "test/brand/sync.test.ts": ["src/crm/sync.ts"],
  "test/crm/over-http.test.ts": [],
  "test/api/all.test.ts": ["src/worker.ts"],
};
const near = (...changed: string[]) => rank(changed, Object.keys(IMPORTS), (file) => IMPORTS[file] ?? []);

it("a changed test comes first, alone", () => {
  expect(near("test/api/all.test.ts")).toEqual(["test/api/all.test.ts"]);
});

it("a changed source brings the tests that import it, the nearer ones first, and then those of its room", () => {
  expect(near("src/crm/link.ts")).toEqual(["test/crm/link.test.ts", "test/brand/sync.test.ts", "test/crm/over-http.test.ts"]);
});

it("what imports the whole Worker is near to nothing", () => {
  expect(near("src/crm/sync.ts")).not.toContain("test/api/all.test.ts");
});

it("a document touches no test", () => {
  expect(near("docs/facts.md")).toEqual([]);
});
