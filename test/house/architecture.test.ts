import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const page = readFileSync(join(ROOT, "ARCHITECTURE.md"), "utf8");

/** The rooms that the tree of folders shows, a line of it may show two, so deep: `src` itself is 0. */
function shown(depth: number): string[] {
  const [, tree = ""] = /## Rooms\n\n```\n([\s\S]*?)```/.exec(page) ?? [];
  const line = new RegExp(`^ {${2 * depth}}(\\w+)/ `);
  return tree.split("\n").flatMap((text) => {
    const [, first] = line.exec(text) ?? [];
    const [, second] = / {3,}(\w+)\/ /.exec(text.trim()) ?? [];
    return first === undefined ? [] : [first, ...(second === undefined ? [] : [second])];
  });
}

const folders = (path: string) =>
  readdirSync(join(ROOT, path), { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));

it.each([
  ["src", 1],
  ["packages/millrace/src", 2],
])("ARCHITECTURE.md shows each folder of %s, and none that is gone", (path, depth) => {
  expect(shown(depth).toSorted()).toEqual(folders(path).toSorted());
});

it("ARCHITECTURE.md is read at one sitting: 1,500 words beside its diagram", () => {
  const words = page.replace(/```mermaid[\s\S]*?```/, "").match(/\S*\w\S*/g) ?? [];
  expect(words.length).toBeLessThanOrEqual(1500);
});
