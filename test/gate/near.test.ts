import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { rank, roomsOf, within } from "./near.ts";
import { ROOT } from "./took.ts";

const IMPORTS: Record<string, string[]> = {
  "src/systems/crm/link.ts": [],
  "src/systems/crm/sync.ts": ["src/systems/crm/link.ts"],
  "src/worker.ts": ["src/systems/crm/sync.ts"],
  "test/systems/crm/link.test.ts": ["src/systems/crm/link.ts"],
  "test/systems/brand/sync.test.ts": ["src/systems/crm/sync.ts"],
  "test/systems/crm/over-http.test.ts": [],
  "test/api/all.test.ts": ["src/worker.ts"],
};
const near = (...changed: string[]) => rank(changed, Object.keys(IMPORTS), (file) => IMPORTS[file] ?? []);

it("npm run test:near runs a changed test first, before all others", () => {
  expect(near("test/api/all.test.ts")).toEqual(["test/api/all.test.ts"]);
});

it("a changed source selects the tests that import it, nearest first, and then the tests of its folder", () => {
  expect(near("src/systems/crm/link.ts")).toEqual([
    "test/systems/crm/link.test.ts",
    "test/systems/brand/sync.test.ts",
    "test/systems/crm/over-http.test.ts",
  ]);
});

it("each folder of the source has folders of tests", () => {
  const rooms = ["src", "src/systems", "packages/millrace/src"].flatMap((floor) =>
    readdirSync(join(ROOT, floor), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && !["src/systems", "packages/millrace/src"].includes(`${floor}/${entry.name}`))
      .map(({ name }) => `${floor}/${name}`),
  );
  const hasTests = (folder: string) =>
    existsSync(join(ROOT, folder)) && readdirSync(join(ROOT, folder)).some((name) => name.endsWith(".test.ts"));
  const untested = rooms.flatMap((room) => roomsOf(`${room}/file.ts`).filter((folder) => !hasTests(folder)));
  expect(untested, "test/gate/near.ts must list the test folders of a source folder that has no test folder of the same name.").toEqual([]);
});

it("a test that imports the whole Worker is not selected for a changed source", () => {
  expect(near("src/systems/crm/sync.ts")).not.toContain("test/api/all.test.ts");
});

it("a changed document selects no test", () => {
  expect(near("docs/facts.md")).toEqual([]);
});

it("the selected tests run within 30 s: longer files are excluded, except a changed one", () => {
  const times = [
    { file: "test/a.test.ts", ms: 9000, tests: 1 },
    { file: "test/b.test.ts", ms: 9000, tests: 1 },
    { file: "test/c.test.ts", ms: 4000, tests: 1 },
    { file: "test/changed.test.ts", ms: 60_000, tests: 1 },
  ];
  const ranked = ["test/changed.test.ts", "test/a.test.ts", "test/b.test.ts", "test/c.test.ts", "test/demo/demo.test.ts"];
  expect(within(ranked, ["test/changed.test.ts"], times)).toEqual(["test/changed.test.ts", "test/a.test.ts", "test/c.test.ts"]);
});
