import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { sources } from "./sources.ts";

const ROOT = join(import.meta.dirname, "../..");
const page = readFileSync(join(ROOT, "ARCHITECTURE.md"), "utf8");

/** The folders that the diagram shows below a line such as `src/`, at this depth; a line may show two. */
function shown(top: string, depth: number): string[] {
  const [, tree = ""] = /## Rooms\n\n```\n([\s\S]*?)```/.exec(page) ?? [];
  const [section = ""] = tree.split(/^(?=\S)/m).filter((text) => text.startsWith(`${top}/ `));
  const line = new RegExp(`^ {${2 * depth}}(\\w+)/ `);
  return section.split("\n").flatMap((text) => {
    const [, first] = line.exec(text) ?? [];
    const [, second] = / {3,}(\w+)\/ /.exec(text.trim()) ?? [];
    return first === undefined ? [] : [first, ...(second === undefined ? [] : [second])];
  });
}

const folders = (path: string) =>
  readdirSync(join(ROOT, path), { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));

/** Output of a build or an installation. */
const MADE = ["dist", "node_modules"];

it.each([
  ["src", "src", 1],
  ["packages/millrace", "packages/millrace", 1],
  ["packages/millrace/src", "packages/millrace", 2],
] as const)("ARCHITECTURE.md shows each folder of %s, and no other", (path, top, depth) => {
  expect(shown(top, depth).toSorted()).toEqual(
    folders(path)
      .filter((name) => !MADE.includes(name))
      .toSorted(),
  );
});

it("ARCHITECTURE.md has at most 1,500 words outside its diagram", () => {
  const words = page.replace(/```mermaid[\s\S]*?```/, "").match(/\S*\w\S*/g) ?? [];
  expect(words.length).toBeLessThanOrEqual(1500);
});

it.each(["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/cost.md"])("%s names only source files that exist", (file) => {
  const named = [...readFileSync(join(ROOT, file), "utf8").matchAll(/`(?!test\/)((?:[\w-]+\/)*[\w-]+\.tsx?)`/g)].map(
    ([, path = ""]) => path,
  );
  const paths = sources().map(({ path }) => `/${path}`);
  expect(named.length).toBeGreaterThan(0);
  expect(named.filter((path) => !paths.some((one) => one.endsWith(`/${path}`)))).toEqual([]);
});
