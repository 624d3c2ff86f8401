import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";

const ROOT = resolve(import.meta.dirname, "../../..");
const FOLDER = join(ROOT, "docs/console");
/** The maximum size of all pictures together: every clone of the repository downloads them. */
const MOST_BYTES = 1_500_000;

const page = readFileSync(join(ROOT, "docs/console.md"), "utf8");
const shown = [...page.matchAll(/!\[[^\]]+\]\(console\/([^)]+)\)/g)].map(([, file = ""]) => file);

it("docs/console.md shows every picture file of its folder, and their total size is below the limit", () => {
  const files = readdirSync(FOLDER);
  expect(files.toSorted()).toEqual(shown.toSorted());
  const bytes = files.map((file) => statSync(join(FOLDER, file)).size);
  expect(bytes.reduce((sum, one) => sum + one)).toBeLessThan(MOST_BYTES);
});

it("docs/console.md has a line and a picture of each screen of the console", () => {
  const sources = readFileSync(join(ROOT, "packages/millrace/console/screens/index.ts"), "utf8");
  const titles = new Set([...sources.matchAll(/title: "([^"]+)"/g)].map(([, title = ""]) => title));
  expect(titles.size).toBeGreaterThan(10);
  // The text after a screen's name, until the next screen's name.
  const parts = new Map(page.split(/^\*\*/m).map((part) => [part.slice(0, part.indexOf("**")), part]));
  expect([...titles].filter((title) => !/!\[/.test(parts.get(title) ?? ""))).toEqual([]);
});
